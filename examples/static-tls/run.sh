#!/usr/bin/env bash
# A static site over HTTPS: files of a folder, a certificate, a redirect from HTTP, and a new version by a link.
source "$(dirname "$0")/../lib.sh"
needs openssl openssl

mkdir -p versions/1 versions/2
echo '<h1>version 1</h1>' >versions/1/index.html
echo '<h1>version 2</h1>' >versions/2/index.html
echo 'body { color: teal }' >versions/1/site.css
ln -s versions/1 site
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=site.example \
    -addext 'subjectAltName=DNS:site.example' -keyout key.pem -out cert.pem 2>openssl.log
start_gateway

say 'The certificate, by its server name.'
json() { python3 -c 'import json, sys; print(json.dumps(open(sys.argv[1]).read()))' "$1"; }
show 'put ssls/site "{\"snis\": [\"site.example\"], \"cert\": $(json cert.pem), \"key\": $(json key.pem)}"'

say 'The site on HTTPS; what comes by HTTP is sent there.'
show "put routes/site '{\"host\": \"site.example\", \"uri\": \"/*\", \"plugins\": {
  \"redirect\": {\"http_to_https\": true},
  \"static-files\": {\"root\": \"$work/site\", \"cache\": {\"valid\": 0}}
}}'" | sed "s,$work,\$PWD,"

connect='--connect-to site.example:443:127.0.0.1:9443 --connect-to site.example:80:127.0.0.1:9080'
visit() { curl -sS --cacert cert.pem $connect "$@"; }
show 'visit -o /dev/null -w "%{http_code} %{redirect_url}\n" http://site.example/'
show 'visit https://site.example/'
show 'visit -o /dev/null -w "HTTP/%{http_version} %{http_code} %{content_type}\n" https://site.example/site.css'
show 'visit -o /dev/null -w "%{http_code}\n" https://site.example/../../etc/passwd --path-as-is'

say 'A file that the browser has already is not sent again.'
show 'tag=$(visit -I https://site.example/ | tr -d "\r" | sed -n "s/^etag: //Ip")'
show 'visit -o /dev/null -w "%{http_code}\n" -H "If-None-Match: $tag" https://site.example/'

say 'Version 2, by one change of a link.'
show 'ln -sfn versions/2 site'
show 'visit https://site.example/'
