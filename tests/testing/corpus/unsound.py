"""Rules that look right and are wrong, each for one reason; the example of each is a witness."""

from tests.testing.corpus import unsound_numbers, unsound_places

CASES = (*unsound_numbers.UNSOUND.cases, *unsound_places.UNSOUND.cases)
