"""Profiles: one record that says everything about a model. Needs no torch to be read."""

from sitta.models.profile.card import profile_of_card
from sitta.models.profile.errors import ProfileError
from sitta.models.profile.record import ClassInfo, Profile

__all__ = ["ClassInfo", "Profile", "ProfileError", "profile_of_card"]
