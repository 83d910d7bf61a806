"""The proleptic Gregorian calendar in integers: the whole range of 64-bit microseconds."""

from __future__ import annotations

MICROSECONDS_A_SECOND = 1_000_000
SECONDS_A_DAY = 86_400
MICROSECONDS_A_DAY = SECONDS_A_DAY * MICROSECONDS_A_SECOND

PARTS = frozenset({"year", "month", "day", "hour", "minute", "second", "dayofweek"})

_DAYS_FROM_0000_03_01_TO_1970 = 719_468
_DAYS_IN_400_YEARS = 146_097


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day counted from 1970-01-01.

    Years are counted from the first of March, so that the leap day is the last of its year.
    """
    era, day_of_era = divmod(days + _DAYS_FROM_0000_03_01_TO_1970, _DAYS_IN_400_YEARS)
    leaps = day_of_era // 1460 - day_of_era // 36524 + day_of_era // 146096
    year_of_era = (day_of_era - leaps) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def days_from_civil(year: int, month: int, day: int) -> int | None:
    """The day counted from 1970-01-01; None if there is no such day."""
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    shifted = year - (month <= 2)
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    days = era * _DAYS_IN_400_YEARS + day_of_era - _DAYS_FROM_0000_03_01_TO_1970
    return days if civil_from_days(days) == (year, month, day) else None


def calendar_part(part: str, moment: int, *, is_date: bool) -> int:
    """A part of a moment in UTC; a date is its midnight. Sunday is day 1 of the week."""
    if is_date:
        days, rest = moment, 0
    else:
        days, rest = divmod(moment, MICROSECONDS_A_DAY)
    seconds = rest // MICROSECONDS_A_SECOND
    match part:
        case "hour":
            return seconds // 3600
        case "minute":
            return seconds // 60 % 60
        case "second":
            return seconds % 60
        case "dayofweek":
            return (days + 4) % 7 + 1
    year, month, day = civil_from_days(days)
    return {"year": year, "month": month, "day": day}[part]
