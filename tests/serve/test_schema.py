"""Requests made up from the OpenAPI document: whatever they are, the service keeps its word."""

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

KEPT = (
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
ROUTES = 11
EXAMPLES = 20  # of each route and each mode


def test_no_request_is_a_fault_of_the_service(server):
    document = schemathesis.openapi.from_dict(server.client.get("/openapi.json").json())
    document.config.update(base_url=server.url)
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) >= ROUTES
    sent = []
    for operation in operations:
        for mode in schemathesis.GenerationMode:  # as the document says, and otherwise
            try:
                cases = operation.as_strategy(generation_mode=mode)
                _ask(cases, sent)
            except Exception as error:
                if type(error).__name__ != "Unsatisfiable":  # nothing to be done wrong
                    raise
    assert len(sent) > 10 * ROUTES
    assert {200, 404, 415, 422} & set(sent)
    assert server.client.get("/healthz").status_code == 200


def _ask(cases, sent):
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def ask(case):
        sent.append(case.call_and_validate(checks=KEPT).status_code)

    ask()
