"""An OCI image layout (https://github.com/opencontainers/image-spec) with the program and nothing that it does not need."""

import hashlib
import json
from datetime import datetime, timezone

import archive
from archive import Entry

USER = 10001
PREFIX = "/var/lib/tidegate"
CONFIG = "/etc/tidegate/config.yaml"


def files(program, certificates, config, licence):
    return {
        "usr/bin/tidegate": Entry(program, 0o755),
        "etc/ssl/certs/ca-certificates.crt": Entry(certificates),
        CONFIG.lstrip("/"): Entry(config),
        "etc/passwd": Entry(f"root:x:0:0::/:/\ntidegate:x:{USER}:{USER}::{PREFIX}:/\n".encode()),
        "etc/group": Entry(f"root:x:0:\ntidegate:x:{USER}:\n".encode()),
        "usr/share/licenses/tidegate/LICENSE": Entry(licence),
        "tmp": Entry(mode=0o1777),
        PREFIX.lstrip("/"): Entry(mode=0o750, owner=USER),
    }


def layout(entries, architecture, version, commit, url, mtime, level):
    """Path in the layout -> bytes."""
    created = datetime.fromtimestamp(mtime, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    blobs = {}

    def blob(data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def text(value):
        return json.dumps(value, indent=1, sort_keys=True).encode()

    layer = archive.tar(entries, mtime)
    labels = {
        "org.opencontainers.image.title": "tidegate",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.revision": commit,
        "org.opencontainers.image.source": url,
        "org.opencontainers.image.version": version,
    }
    config = {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/bin", f"TIDEGATE_PREFIX={PREFIX}", f"TIDEGATE_CONFIG={CONFIG}"],
            "Entrypoint": ["/usr/bin/tidegate"],
            "Cmd": ["run"],
            "WorkingDir": PREFIX,
            "ExposedPorts": {f"{port}/tcp": {} for port in (9080, 9091, 9180, 9443)},
            "Volumes": {PREFIX: {}},
            "StopSignal": "SIGQUIT",
            "Labels": labels,
            # Not of OCI: docker and podman read it, others pass it over.
            "Healthcheck": {"Test": ["CMD", "/usr/bin/tidegate", "health"], "Interval": 10_000_000_000,
                            "Timeout": 5_000_000_000, "StartPeriod": 5_000_000_000, "Retries": 3},
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": created, "created_by": "make dist"}],
    }
    kind = "application/vnd.oci.image."
    manifest = {
        "schemaVersion": 2,
        "mediaType": kind + "manifest.v1+json",
        "config": blob(text(config), kind + "config.v1+json"),
        "layers": [blob(archive.compress(layer, level), kind + "layer.v1.tar+gzip")],
        "annotations": labels | {"org.opencontainers.image.created": created},
    }
    described = blob(text(manifest), kind + "manifest.v1+json")
    described["platform"] = {"architecture": architecture, "os": "linux"}
    described["annotations"] = {"org.opencontainers.image.ref.name": version}
    return {
        "oci-layout": text({"imageLayoutVersion": "1.0.0"}),
        "index.json": text({"schemaVersion": 2, "mediaType": kind + "index.v1+json", "manifests": [described]}),
        **blobs,
    }
