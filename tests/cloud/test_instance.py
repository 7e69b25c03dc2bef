"""The instance metadata service, by a server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai4infra.cloud.instance import ASSET_TAG, Instance, parse_instance, this_vm

COMPUTE = {
    "location": "eastus2",
    "vmSize": "Standard_ND96isr_H100_v5",
    "storageProfile": {
        "osDisk": {"managedDisk": {"storageAccountType": "Premium_LRS"}},
        "dataDisks": [
            {"lun": "0", "managedDisk": {"storageAccountType": "PremiumV2_LRS"}},
            {"lun": "7", "managedDisk": {"storageAccountType": "Standard_LRS"}},
            {"lun": "8"},
        ],
    },
}


class Service(BaseHTTPRequestHandler):
    """Answers as the service does: not without its header."""

    def do_GET(self) -> None:  # the name is the base class's
        asked = self.headers.get("Metadata") == "true" and "api-version=" in self.path
        body = json.dumps(COMPUTE if asked else {"error": "Bad request"}).encode()
        self.send_response(200 if asked else 400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        return


@pytest.fixture
def service() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def azure(tmp_path: Path) -> Path:
    file = tmp_path / "chassis_asset_tag"
    file.write_text(f"{ASSET_TAG}\n")
    return file


def test_a_vm_knows_its_size_and_what_its_disks_are(service: str, azure: Path) -> None:
    assert this_vm(host=service, tag_file=azure) == Instance(
        size="Standard_ND96isr_H100_v5",
        region="eastus2",
        os_disk_sku="Premium_LRS",
        data_disk_skus={0: "PremiumV2_LRS", 7: "Standard_LRS"},
    )


@pytest.mark.parametrize("tag", ["", "No Asset Tag\n"])
def test_off_azure_nobody_is_asked(tmp_path: Path, tag: str) -> None:
    file = tmp_path / "tag"
    file.write_text(tag)
    # Asking this host would raise.
    assert this_vm(host="not a host", tag_file=file) is None
    assert this_vm(host="not a host", tag_file=tmp_path / "nothing") is None


def test_a_service_that_is_not_there_leaves_the_vm_unknown(azure: Path) -> None:
    assert this_vm(host="127.0.0.1:9", tag_file=azure, timeout_s=0.2) is None


class Dripping(BaseHTTPRequestHandler):
    """Sends a byte now and then, and never comes to an end."""

    over = threading.Event()

    def do_GET(self) -> None:  # the name is the base class's
        with suppress(OSError):
            while not self.over.wait(0.01):
                self.wfile.write(b"H")

    def log_message(self, *args: Any) -> None:
        return


def test_a_service_that_drips_is_not_waited_for(azure: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Dripping) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        host = f"127.0.0.1:{server.server_address[1]}"
        assert this_vm(host=host, tag_file=azure, timeout_s=0.2) is None
        Dripping.over.set()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("answer", [b"<html>Sign in</html>", b"", b"\xff", b"[]", b"null"])
def test_a_proxys_page_is_no_vm(answer: bytes) -> None:
    with suppress(msgspec.DecodeError):
        assert parse_instance(answer).size is None


@pytest.mark.parametrize("lun", ["\u00b2", "9" * 5000, "", None, -1, True])
def test_a_disk_without_a_number_is_left_out(lun: object) -> None:
    disk = {"lun": lun, "managedDisk": {"storageAccountType": "Premium_LRS"}}
    answer = json.dumps({"storageProfile": {"dataDisks": [disk]}}).encode()
    assert parse_instance(answer).data_disk_skus == {}


@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda x: (
            st.dictionaries(
                st.sampled_from(
                    ["storageProfile", "osDisk", "dataDisks", "managedDisk", "lun", "vmSize"]
                ),
                x,
            )
            | st.lists(x)
        ),
    )
)
def test_whatever_it_answers_is_read_as_far_as_it_goes(answer: Any) -> None:
    parse_instance(json.dumps(answer).encode())
