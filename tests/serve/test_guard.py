"""Who may ask: hosts, origins, tokens, and the headers on every answer."""

import re

import httpx
import pytest

from sitta.errors import InvalidSetting
from sitta.serve.attempts import FREE, Attempts
from sitta.serve.errors import ApiError
from sitta.serve.guard import OPEN, SAFE, Guard
from sitta.serve.run import _greeting
from tests import ROOT

TOKEN = "correct horse battery"  # noqa: S105
ELSEWHERE = "http://elsewhere.example"


def test_every_answer_carries_the_headers(guarded):
    asked = guarded()
    made = asked.send().json()["id"]
    paths = ["/", "/healthz", "/nothing", "/metrics", "/api/models", f"/api/results/{made}/x"]
    for answer in [*(asked.get(path) for path in paths), asked.send(settings="x")]:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] in ("no-store", "no-cache")
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert asked.get(f"/api/results/{made}/figures.json").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["elsewhere.example", "elsewhere.example:8642", "", "127.0.0.1.x"])
def test_a_name_that_points_here_is_refused(guarded, host):
    asked = guarded()
    for path in ("/", "/healthz", "/api/models"):
        answer = asked.get(path, headers={"host": host})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "wrong-host")


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8642", "LOCALHOST"])
def test_its_own_names_are_not(guarded, host):
    assert guarded().get("/healthz", headers={"host": host}).status_code == 200


def test_a_proxy_may_have_a_name(guarded):
    asked = guarded(guard=Guard(names=frozenset({"sitta.example"})))
    assert asked.get("/healthz", headers={"host": "sitta.example"}).status_code == 200
    assert asked.get("/healthz", headers={"host": "other.example"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": ELSEWHERE},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "//["},
    ],
    ids=str,
)
def test_pages_elsewhere_may_not_send(guarded, headers):
    asked = guarded()
    made = asked.send().json()["id"]
    files = {"file": ("a.png", b"x")}
    for method, path in (("POST", "/api/predict"), ("DELETE", f"/api/results/{made}")):
        answer = asked.ask(method, path, headers=headers, files=files)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "wrong-origin")
    own = {"origin": "http://127.0.0.1:8642", "sec-fetch-site": "same-origin"}
    assert asked.ask("POST", "/api/predict", headers=own, files=files).status_code == 200


def test_without_the_token_nothing_is_told(guarded):
    asked = guarded(guard=Guard(token=TOKEN))
    assert asked.get("/healthz").status_code == 200
    for path in ("/", "/api/models", "/metrics", "/openapi.json", "/page/x.js", "/nothing"):
        answer = asked.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.json()["error"]["code"] == "no-token"
    assert asked.send().status_code == 401
    for wrong in (
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        "Bearer",
        "Bearer é",
    ):
        answer = asked.get("/api/models", headers={"authorization": wrong.encode("latin-1")})
        assert answer.status_code == 401
    shown = {"authorization": f"Bearer {TOKEN}"}
    assert asked.get("/api/models", headers=shown).status_code == 200


def test_no_route_forgets_the_guard(guarded):
    """Of all routes there are, with those of sessions and reviews: token, origin and host."""
    asked = guarded(Guard(token=TOKEN))
    own = {"Authorization": f"Bearer {TOKEN}"}
    paths = asked.get("/openapi.json", headers=own).json()["paths"]
    routes = [(verb.upper(), path) for path, verbs in paths.items() for verb in verbs]
    assert {("PUT", "/api/results/{id}/review"), ("GET", "/api/session")} <= set(routes)
    for verb, path in routes:
        if path in OPEN:
            continue
        assert asked.ask(verb, path).status_code == 401, path
        elsewhere = {**own, "Host": "elsewhere.example"}
        assert asked.ask(verb, path, headers=elsewhere).status_code == 403, path
        if verb not in SAFE:
            evil = {**own, "Origin": ELSEWHERE}
            assert asked.ask(verb, path, headers=evil).status_code == 403, path


def test_people_without_the_token_are_led_to_the_form(guarded):
    asked = guarded(guard=Guard(token=TOKEN))
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for verb in ("GET", "HEAD"):
        answer = asked.ask(verb, "/", headers=browser)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        assert asked.ask(verb, "/login", headers=browser).status_code == 200
    for path in ("/api/models", "/metrics", "/page/js/main.js"):
        assert asked.get(path, headers=browser).status_code == 401
    assert asked.ask("POST", "/", headers=browser).status_code == 401
    assert asked.get("/", headers={**browser, "host": "elsewhere.example"}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/healthz"])
def test_monitors_may_ask_by_head(guarded, path):
    asked = guarded()
    assert asked.ask("HEAD", path).status_code == 200
    assert asked.ask("HEAD", "/metrics").status_code == 405


def test_what_the_documented_proxy_passes_on_is_enough(on_a_port):
    """The cookie is kept to HTTPS, and a page on another port than 443 may send."""
    text = (ROOT / "docs" / "how-to" / "serve.md").read_text("utf-8")
    block = text.split("```nginx")[1].split("```")[0]
    passed = dict(re.findall(r"proxy_set_header (\S+) (\S+);", block))
    known = {"$http_host": "sitta.example:8443", "$host": "sitta.example", "$scheme": "https"}
    known["$remote_addr"] = "192.0.2.7"
    headers = {name: known[value] for name, value in passed.items()}
    asked = on_a_port(guard=Guard(token=TOKEN, names=frozenset({"sitta.example"})))
    headers |= {"Origin": "https://sitta.example:8443"}
    address = f"http://127.0.0.1:{asked.port}/login"
    answer = httpx.post(address, headers=headers, data={"token": TOKEN})
    assert answer.status_code == 303
    assert answer.headers["set-cookie"].endswith("; Secure")
    for _ in range(FREE + 1):
        answer = httpx.post(address, headers=headers, data={"token": "x"})
    assert answer.status_code == 429
    headers["X-Forwarded-For"] = "192.0.2.8"
    assert httpx.post(address, headers=headers, data={"token": TOKEN}).status_code == 303


@pytest.mark.parametrize("way", ["link", "form"])
def test_a_browser_logs_in_once(guarded, way):
    asked = guarded(guard=Guard(token=TOKEN))

    def login(token):
        if way == "link":
            return asked.get("/", params={"token": token})
        return asked.ask("POST", "/login", data={"token": token})

    assert 'name="token"' in asked.get("/login").text
    wrong = login("not the token at all")
    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    answer = login(TOKEN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    kept = {"cookie": cookie.split(";")[0]}
    assert asked.get("/api/models", headers=kept).status_code == 200
    assert asked.get("/api/models", headers={"cookie": "sitta-session=x"}).status_code == 401
    assert not [line for line in asked.log if TOKEN in line]


def test_wrong_tokens_cost_time(guarded):
    now = [0.0]
    guard = Guard(token=TOKEN, attempts=Attempts(lambda: now[0]))
    asked = guarded(guard)
    cookie = {"cookie": guard.cookie(secure=False)}

    def shown(token):
        return asked.get("/api/models", headers={"authorization": f"Bearer {token}"})

    assert {shown("x").status_code for _ in range(FREE)} == {401}
    waits = []
    for _ in range(9):
        answer = shown(TOKEN)  # not even the right one is looked at
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too-many-tokens")
        for login in (asked.get("/", params={"token": TOKEN}), _posted(asked, TOKEN)):
            assert login.status_code == 429
        waits.append(int(answer.headers["retry-after"]))
        now[0] += waits[-1]
        assert shown("x").status_code == 401
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert asked.get("/api/models", headers=cookie).status_code == 200
    assert asked.get("/healthz").status_code == 200
    now[0] += 60
    assert shown(TOKEN).status_code == 200


def _posted(asked, token):
    return asked.ask("POST", "/login", data={"token": token})


def test_an_old_session_is_no_attempt(guarded):
    asked = guarded(Guard(token=TOKEN))
    for _ in range(2 * FREE):
        assert asked.get("/api/models", headers={"cookie": "sitta-session=x"}).status_code == 401
    assert asked.get("/", params={"token": TOKEN}).status_code == 303


def test_attempts_are_counted_by_network_and_forgotten():
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    for number in range(FREE):
        attempts.failed(f"2001:db8::{number:x}")
    with pytest.raises(ApiError, match="Too many wrong tokens"):
        attempts.check("2001:db8::ffff")
    attempts.check("2001:db8:0:1::1")
    for client in ("192.0.2.1", "", "testclient"):
        attempts.check(client)
    now[0] += 1000
    attempts.failed("2001:db8::1")
    attempts.check("2001:db8::1")
    for number in range(5000):
        attempts.failed(f"client {number}")
    assert len(attempts._failures) <= 4096


def test_the_form_takes_no_books(guarded):
    asked = guarded(guard=Guard(token=TOKEN))
    assert asked.ask("POST", "/login", data={"token": "x" * 10_000}).status_code == 413


def test_the_network_is_served_with_a_token_or_on_purpose():
    with pytest.raises(InvalidSetting, match="anyone in the network"):
        Guard("0.0.0.0")  # noqa: S104
    with pytest.raises(InvalidSetting, match="too short"):
        Guard(token="short")  # noqa: S106
    assert Guard("0.0.0.0", insecure=True).token is None  # noqa: S104
    assert Guard("::1").token is None
    assert TOKEN not in repr(Guard("0.0.0.0", TOKEN))  # noqa: S104


def test_the_greeting_says_how_the_token_is_shown():
    said = _greeting(Guard(token=TOKEN), 8642, [{"name": "none"}])
    assert "people enter it there, programs send it in a header" in said
    assert TOKEN not in said
