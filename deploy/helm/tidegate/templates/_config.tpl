{{/* config.yaml. What is empty is left to the gateway. */}}
{{- define "tidegate.config" -}}
{{- if .Values.apisix.fullCustomConfig.enabled }}
{{- toYaml .Values.apisix.fullCustomConfig.config }}
{{- else }}
{{- $config := dict
  "apisix" (fromYaml (include "tidegate.config.apisix" .))
  "nginx_config" (fromYaml (include "tidegate.config.nginx" .))
  "deployment" (fromYaml (include "tidegate.config.deployment" .)) }}
{{- $attributes := deepCopy .Values.apisix.pluginAttrs }}
{{- with .Values.apisix.prometheus }}
{{- if .enabled }}
{{- $own := dict "export_uri" .path "metric_prefix" .metricPrefix "enable_export_server" true
  "export_addr" (dict "ip" "0.0.0.0" "port" (int .containerPort)) }}
{{- $_ := set $attributes "prometheus" (mergeOverwrite (deepCopy (default dict (get $attributes "prometheus"))) $own) }}
{{- end }}
{{- end }}
{{- with $attributes }}{{ $_ := set $config "plugin_attr" . }}{{ end }}
{{- with .Values.apisix.plugins }}{{ $_ := set $config "plugins" . }}{{ end }}
{{- with .Values.apisix.stream_plugins }}{{ $_ := set $config "stream_plugins" . }}{{ end }}
{{- if .Values.apisix.discovery.enabled }}
{{- with .Values.apisix.discovery.registry }}{{ $_ := set $config "discovery" . }}{{ end }}
{{- end }}
{{- toYaml $config }}
{{- end }}
{{- end }}

{{- define "tidegate.config.apisix" -}}
{{- $a := .Values.apisix }}
{{- $service := .Values.service }}
node_listen:
{{- if $service.http.enabled }}
  - port: {{ $service.http.containerPort }}
{{- range $service.http.additionalContainerPorts }}
  - {{ toJson . }}
{{- end }}
{{- else }} []
{{- end }}
enable_ipv6: {{ $a.enableIPv6 }}
enable_http2: {{ $a.enableHTTP2 }}
enable_server_tokens: {{ $a.enableServerTokens }}
enable_admin: {{ ternary true false (eq (include "tidegate.hasAdmin" .) "yes") }}
enable_control: {{ .Values.control.enabled }}
{{- if .Values.control.enabled }}
control:
  ip: {{ .Values.control.service.ip | quote }}
  port: {{ .Values.control.service.port }}
{{- end }}
status:
  ip: {{ $a.status.ip | quote }}
  port: {{ $a.status.port }}
router:
  http: {{ $a.router.http }}
ssl:
  enable: {{ $a.ssl.enabled }}
{{- if $a.ssl.enabled }}
  listen:
    - port: {{ $a.ssl.containerPort }}
{{- range $a.ssl.additionalContainerPorts }}
    - {{ omit . "enable_http3" | toJson }}
{{- end }}
  ssl_protocols: {{ $a.ssl.sslProtocols | quote }}
{{- with $a.ssl.sslCiphers }}
  ssl_ciphers: {{ . | quote }}
{{- end }}
{{- with $a.ssl.fallbackSNI }}
  fallback_sni: {{ . | quote }}
{{- end }}
{{- end }}
{{- if and $a.ssl.existingCASecret $a.ssl.certCAFilename }}
  ssl_trusted_certificate: /etc/tidegate-ca/{{ $a.ssl.certCAFilename }}
{{- end }}
{{- if $service.stream.enabled }}
proxy_mode: {{ ternary "http&stream" "stream" $service.http.enabled }}
stream_proxy:
{{- with $service.stream.tcp }}
  tcp: {{ toJson . }}
{{- end }}
{{- with $service.stream.udp }}
  udp: {{ toJson . }}
{{- end }}
{{- end }}
{{- with $a.dns.resolvers }}
dns_resolver: {{ toJson . }}
{{- end }}
{{- with $a.dns.validity }}
dns_resolver_valid: {{ . }}
{{- end }}
resolver_timeout: {{ $a.dns.timeout }}
{{- with $a.trustedAddresses }}
trusted_addresses: {{ toJson . }}
{{- end }}
{{- if $a.keyring }}
data_encryption:
  keyring: {{ toJson $a.keyring }}
{{- else if eq (include "tidegate.provider" .) "embedded" }}
data_encryption:
  keyring: ["${{ "{{" }}TIDEGATE_KEYRING{{ "}}" }}"]
{{- end }}
{{- end }}

{{- define "tidegate.config.nginx" -}}
{{- $n := .Values.apisix.nginx }}
error_log: {{ $n.logs.errorLog }}
error_log_level: {{ $n.logs.errorLogLevel }}
worker_processes: {{ $n.workerProcesses }}
worker_rlimit_nofile: {{ $n.workerRlimitNofile | int }}
worker_shutdown_timeout: {{ .Values.drain.timeout }}s
enable_cpu_affinity: {{ $n.enableCPUAffinity }}
event:
  worker_connections: {{ $n.workerConnections | int }}
http:
  enable_access_log: {{ $n.logs.enableAccessLog }}
  access_log: {{ $n.logs.accessLog }}
{{- with $n.logs.accessLogFormat }}
  access_log_format: {{ . | replace "\\\"" "\"" | toJson }}
{{- end }}
  access_log_format_escape: {{ $n.logs.accessLogFormatEscape }}
  keepalive_timeout: {{ $n.keepaliveTimeout }}
{{- end }}

{{- define "tidegate.config.deployment" -}}
{{- $a := .Values.apisix }}
{{- $provider := include "tidegate.provider" . }}
{{- if eq $provider "file" }}
role: data_plane
role_data_plane:
  config_provider: yaml
{{- else }}
role: {{ $a.deployment.role }}
role_{{ $a.deployment.role }}:
  config_provider: {{ $provider }}
{{- end }}
{{- if eq $provider "etcd" }}
{{- $tls := .Values.etcd.auth.tls }}
etcd:
{{- if .Values.etcd.enabled }}
  host:
    - {{ ternary "https" "http" $tls.enabled }}://{{ include "tidegate.fullname" . }}-etcd.{{ .Release.Namespace }}.svc:{{ .Values.etcd.service.port }}
{{- else }}
  host: {{ toJson .Values.externalEtcd.host }}
{{- with .Values.externalEtcd.user }}
  user: {{ . | quote }}
  password: "${{ "{{" }}APISIX_ETCD_PASSWORD{{ "}}" }}"
{{- end }}
{{- end }}
  prefix: {{ .Values.etcd.prefix | quote }}
  timeout: {{ .Values.etcd.timeout }}
{{- if $tls.enabled }}
  tls:
    cert: /etc/etcd-ssl/{{ $tls.certFilename }}
    key: /etc/etcd-ssl/{{ $tls.certKeyFilename }}
    verify: {{ $tls.verify }}
{{- with $tls.sni }}
    sni: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if include "tidegate.hasAdmin" . }}
admin:
  admin_listen:
    ip: {{ trimAll "[]" $a.admin.ip | quote }}
    port: {{ $a.admin.port }}
  allow_admin: {{ toJson $a.admin.allow.ipList }}
  enable_admin_cors: {{ $a.admin.cors }}
  enable_admin_ui: {{ $a.admin.enable_admin_ui }}
  audit_log: /dev/stdout
  admin_key:
    - name: admin
      role: admin
      key: "${{ "{{" }}APISIX_ADMIN_KEY{{ "}}" }}"
    - name: viewer
      role: viewer
      key: "${{ "{{" }}APISIX_VIEWER_KEY{{ "}}" }}"
{{- end }}
{{- end }}
