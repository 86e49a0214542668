"""From rows to a policy: warm start, calibration, and the guards that make silent failures impossible."""
