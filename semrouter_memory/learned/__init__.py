"""Decisions about language that are fitted on labelled data: logistic models over named features. Pure."""
