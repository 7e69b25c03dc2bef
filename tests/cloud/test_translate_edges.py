import json

import pytest

from ai4infra.cloud.translate import LONGEST_SENTENCE, error_of, one_sentence
from ai4infra.errors import ConflictError, NotRegisteredError, ThrottledError


def said(status: int, body: object):
    return error_of(status, {}, json.dumps(body), "Cannot do it")


def test_a_code_without_a_message_keeps_the_code_and_shows_no_json():
    error = said(409, {"Code": "ReceiverAlreadyEnabled", "Message": None})
    assert isinstance(error, ConflictError)
    assert error.code == "ReceiverAlreadyEnabled"
    assert error.message == "Cannot do it: the service answered with HTTP status 409 and no reason."


@pytest.mark.parametrize("body", [{"id": "/subscriptions/x", "name": "x"}, {}, [], "gone"])
def test_json_that_is_no_error_is_not_shown_as_one_but_kept_for_debugging(body):
    error = said(429, body)
    assert isinstance(error, ThrottledError)
    assert error.message.endswith("and no reason.")
    assert error.detail == json.dumps(body)


def test_a_sentence_of_one_endless_word_is_cut_and_not_lost():
    assert one_sentence("x" * 5000) == "x" * LONGEST_SENTENCE + " …"


def test_the_quota_api_has_its_own_code_for_a_missing_registration():
    error = said(409, {"error": {"code": "MissingRegistration", "message": "Register first."}})
    assert isinstance(error, NotRegisteredError)


@pytest.mark.parametrize(
    ("named", "row"),
    [
        ("standardDASv5Family Cores", "standardDASv5Family"),
        ("Standard NCASv3_T4 Family Cores", "'Standard NCASv3_T4 Family'"),
        ("Total Regional Cores", "cores"),
        ("LowPriorityCores", "lowPriorityCores"),
    ],
)
def test_a_used_up_quota_names_the_row_to_raise_as_a_shell_takes_it(named, row):
    text = (
        f"Operation could not be completed as it results in exceeding approved {named} quota."
        " Additional details - Deployment Model: Resource Manager, Location: eastus,"
        " Current Limit: 100, Current Usage: 96, Additional Required: 64,"
        " (Minimum) New Limit Required: 160."
    )
    error = said(409, {"error": {"code": "OperationNotAllowed", "message": text}})
    assert f"--region eastus --family {row} --limit 160" in str(error.hint)
