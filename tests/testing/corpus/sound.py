"""Rules that are sound with the conditions that they have, each of which is needed."""

from tests.testing.corpus import sound_numbers, sound_places

CASES = (*sound_numbers.SOUND.cases, *sound_places.SOUND.cases)
