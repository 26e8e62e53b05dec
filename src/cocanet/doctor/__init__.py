"""What works on this machine and what does not, with the fix for each; nothing here raises or prints."""

from cocanet.doctor.examination import examine
from cocanet.doctor.finding import Finding, State

__all__ = ["Finding", "State", "examine"]
