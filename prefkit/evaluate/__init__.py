"""Did it help: intervals, paired gains, and the ledger of what each step added."""
