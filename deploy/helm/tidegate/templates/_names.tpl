{{- define "tidegate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "tidegate.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "tidegate.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "tidegate.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "tidegate.selector" -}}
{{- with .Values.service.labelsOverride }}
{{- tpl (toYaml .) $ }}
{{- else }}
app.kubernetes.io/name: {{ include "tidegate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- end }}

{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "tidegate.account" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "tidegate.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Where the configuration comes from: embedded, etcd, yaml or json. */}}
{{- define "tidegate.provider" -}}
{{- $deployment := .Values.apisix.deployment }}
{{- $hasEtcd := or .Values.etcd.enabled .Values.externalEtcd.host }}
{{- $asked := $deployment.role_traditional.config_provider }}
{{- if eq $deployment.mode "standalone" }}
{{- if and (eq $deployment.role "traditional") (eq $asked "yaml") }}yaml{{ else }}file{{ end }}
{{- else if ne $deployment.role "traditional" }}
{{- if not $hasEtcd }}{{ fail (printf "apisix.deployment.role: %s needs etcd; set externalEtcd.host or etcd.enabled" $deployment.role) }}{{ end }}etcd
{{- else if and (eq $asked "etcd") (not $hasEtcd) }}
{{- fail "config_provider: etcd needs externalEtcd.host or etcd.enabled" }}
{{- else if $asked }}
{{- $asked }}
{{- else if $hasEtcd }}etcd
{{- else }}embedded
{{- end }}
{{- end }}

{{/* StatefulSet, Deployment or DaemonSet. */}}
{{- define "tidegate.kind" -}}
{{- $embedded := eq (include "tidegate.provider" .) "embedded" }}
{{- if and $embedded (or .Values.useDaemonSet .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1)) }}
{{- fail "several gateways need one configuration: set externalEtcd.host, etcd.enabled, or apisix.deployment.mode: standalone" }}
{{- end }}
{{- if .Values.useDaemonSet }}DaemonSet{{ else if $embedded }}StatefulSet{{ else }}Deployment{{ end }}
{{- end }}

{{- define "tidegate.adminSecret" -}}
{{- default (printf "%s-admin" (include "tidegate.fullname" .)) .Values.apisix.admin.credentials.secretName }}
{{- end }}

{{- define "tidegate.hasAdmin" -}}
{{- if and .Values.apisix.admin.enabled (ne .Values.apisix.deployment.role "data_plane") (ne (include "tidegate.provider" .) "file") }}yes{{ end }}
{{- end }}

{{/* A key that is made once: that of the secret which is there, else a new one. */}}
{{- define "tidegate.once" -}}
{{- $there := lookup "v1" "Secret" .root.Release.Namespace .secret }}
{{- with $there }}{{ index .data .key | b64dec }}{{ else }}{{ randAlphaNum 32 }}{{ end }}
{{- end }}
