"""nginx as upstream and as the peer, set up as its manuals advise for a fair comparison."""

import os

BODY = "x" * 1024

RESPONSE_HEADERS = {
    "Cache-Control": "public, max-age=3600",
    "Content-Language": "en",
    "ETag": '"5f3c-1a2b3c4d5e"',
    "Last-Modified": "Tue, 14 Nov 2023 22:13:20 GMT",
    "Vary": "Accept-Encoding, Origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "X-XSS-Protection": "1; mode=block",
    "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
    "Referrer-Policy": "strict-origin-when-cross-origin",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:",
    "Set-Cookie": "session=0123456789abcdef0123456789abcdef; Path=/; HttpOnly; Secure",
    "X-Served-By": "cache-fra-eddf8230021",
    "X-Timer": "S1700000000.123456,VS0,VE12",
}

_MAIN = """daemon off; worker_processes 1; worker_rlimit_nofile 65536;
pid {folder}/{name}.pid; error_log stderr warn;
events {{ worker_connections 30000; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; tcp_nodelay on;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  {http}
}}
"""


def command(folder, name, http):
    """Writes a configuration; returns the command that runs it in the foreground."""
    path = os.path.join(folder, name + ".conf")
    with open(path, "w") as file:
        file.write(_MAIN.format(folder=folder, name=name, http=http))
    return ["nginx", "-c", path, "-p", folder, "-e", "stderr"]


def upstream(folder, port, frames_port=None):
    """`frames_port`: one that speaks HTTP/2 in clear text, too."""
    headers = "".join(f"add_header {name} '{escape(value)}';" for name, value in RESPONSE_HEADERS.items())
    http = f"""server {{ listen 127.0.0.1:{port} reuseport; default_type text/plain;
    location / {{ return 200 "{BODY}"; }}
    # Wants the whole body before it answers.
    location /upload {{ proxy_pass http://127.0.0.1:{port}/; }}
    location /browser {{ {headers} return 200 "{BODY}"; }} }}"""
    if frames_port:
        http += f""" server {{ listen 127.0.0.1:{frames_port} http2; default_type text/plain; location / {{ return 200 "{BODY}"; }} }}"""
    return command(folder, "upstream", http)


def gateway(folder, name, port, upstream_port, keys, secure=None):
    """A gateway that does what each scenario asks of it, as far as nginx can: key check by map, no counting."""
    consumers = "".join(f"{key} consumer_{number};" for number, key in enumerate(keys))
    locations = "".join(
        f"location = /k/{number} {{ if ($consumer = '') {{ return 401; }} proxy_pass http://backend; }}"
        for number in range(len(keys))
    )
    listen_tls = ""
    if secure:
        # What APISIX writes into its nginx.conf.
        listen_tls = (f"listen 127.0.0.1:{secure[0]} ssl http2 reuseport backlog=4096; ssl_certificate {secure[1]}; "
                      f"ssl_certificate_key {secure[2]}; ssl_protocols TLSv1.2 TLSv1.3; "
                      "ssl_session_cache shared:SSL:20m; ssl_session_tickets off;")
    http = f"""
    map_hash_bucket_size 128; map $http_apikey $consumer {{ default ''; {consumers} }}
    upstream backend {{ server 127.0.0.1:{upstream_port}; keepalive 1000; keepalive_requests 1000000000; }}
    server {{ listen 127.0.0.1:{port} reuseport backlog=4096; {listen_tls} default_type text/plain;
      proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $host;
      proxy_set_header X-Forwarded-Port $server_port;
      location / {{ proxy_pass http://backend; }}
      location = /mock {{ return 200 "{BODY}"; }}
      {locations} }}"""
    return command(folder, name, http)


def with_routes(folder, name, port, upstream_port, count):
    """A gateway with many locations, for the start time."""
    locations = "".join(f"location /r{number} {{ proxy_pass http://backend; }}" for number in range(count))
    http = f"""upstream backend {{ server 127.0.0.1:{upstream_port}; keepalive 16; }}
    server {{ listen 127.0.0.1:{port}; {locations} }}"""
    return command(folder, name, http)


def escape(value):
    return value.replace("\\", "\\\\").replace("'", "\\'")
