"""Models that people know, each short enough to read at one sitting."""
