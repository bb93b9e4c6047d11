#!/usr/bin/env python3
"""Records how Tomcat 10 resolves the paths in spellings.txt: tests/servlet/record.py > tests/servlet/tomcat10.tsv

Needs a JDK and, unless TOMCAT names the folder of another Tomcat 10, Debian's apt-get to download the packages. They are
unpacked into a temporary folder, not installed. Only the recording is used by the tests (tests/e2e/config/servlet.rs).
"""

import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))

WEB_XML = """<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="6.0">
  <servlet><servlet-name>paths</servlet-name><servlet-class>Paths</servlet-class></servlet>
  <servlet-mapping><servlet-name>paths</servlet-name><url-pattern>/*</url-pattern></servlet-mapping>
</web-app>
"""

# Apart from the ports what Tomcat ships.
SERVER_XML = """<Server port="-1">
  <Service name="Catalina">
    <Connector port="{port}" address="127.0.0.1" protocol="HTTP/1.1"/>
    <Engine name="Catalina" defaultHost="localhost">
      <Host name="localhost" appBase="webapps" unpackWARs="true" autoDeploy="false"/>
    </Engine>
  </Service>
</Server>
"""


def tomcat(folder):
    """The folder of a Tomcat 10."""
    if "TOMCAT" in os.environ:
        return os.environ["TOMCAT"]
    packages = ["libtomcat10-java", "tomcat10-common"]
    subprocess.run(["apt-get", "download", *packages], cwd=folder, check=True, stdout=sys.stderr)
    for package in glob.glob(os.path.join(folder, "*.deb")):
        subprocess.run(["dpkg", "-x", package, folder], check=True)
    return os.path.join(folder, "usr/share/tomcat10")


def prepare(folder, home, port):
    """CATALINA_BASE with one servlet that takes all paths."""
    base = os.path.join(folder, "base")
    classes = os.path.join(base, "webapps/ROOT/WEB-INF/classes")
    for name in ["conf", "logs", "temp", "work"]:
        os.makedirs(os.path.join(base, name))
    os.makedirs(classes)
    with open(os.path.join(base, "conf/server.xml"), "w") as out:
        out.write(SERVER_XML.format(port=port))
    with open(os.path.join(base, "webapps/ROOT/WEB-INF/web.xml"), "w") as out:
        out.write(WEB_XML)
    with open(os.path.join(base, "conf/web.xml"), "w") as out:
        out.write('<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="6.0"/>\n')
    api = os.path.join(home, "lib/servlet-api.jar")
    subprocess.run(["javac", "-cp", api, "-d", classes, os.path.join(HERE, "Paths.java")], check=True)
    return base


def start(home, base):
    jars = os.pathsep.join(os.path.join(home, "bin", name) for name in ["bootstrap.jar", "tomcat-juli.jar"])
    log = open(os.path.join(base, "logs/out"), "w")
    return subprocess.Popen(
        ["java", f"-Dcatalina.home={home}", f"-Dcatalina.base={base}",
         f"-Djava.io.tmpdir={base}/temp", "-cp", jars, "org.apache.catalina.startup.Bootstrap", "start"],
        stdout=log, stderr=log)


def ask(port, target):
    """Status and body for a target as it stands."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"GET " + target.encode() + b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        size, _, body = body.partition(b"\r\n")
        body = body[: int(size, 16)]
    return int(head.split(b" ", 2)[1]), body.decode()


def wait(process, port):
    for _ in range(600):
        try:
            if ask(port, "/")[0] == 200:
                return
        except (OSError, IndexError):
            pass
        if process.poll() is not None:
            sys.exit("Tomcat ended")
        time.sleep(0.1)
    sys.exit("Tomcat does not answer")


def main():
    folder = tempfile.mkdtemp()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = tomcat(folder)
    base = prepare(folder, home, port)
    process = start(home, base)
    try:
        wait(process, port)
        with open(os.path.join(base, "logs/out")) as log:
            version = re.search(r"Apache (Tomcat/[^ \]]+)", log.read()).group(1)
        print(f"# Recorded by record.py from {version}: spelling, status, path that the servlet got.")
        with open(os.path.join(HERE, "spellings.txt")) as spellings:
            for spelling in (line.rstrip("\n") for line in spellings if line.startswith("/")):
                status, path = ask(port, spelling)
                print(spelling, status, path if status == 200 else "-", sep="\t")
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
