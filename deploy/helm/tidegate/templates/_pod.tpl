{{/* The pod of a gateway; the same in each kind of workload. */}}
{{- define "tidegate.pod" -}}
{{- $name := include "tidegate.fullname" . }}
{{- $provider := include "tidegate.provider" . }}
{{- $a := .Values.apisix }}
metadata:
  labels: {{- include "tidegate.labels" . | nindent 4 }}
  annotations:
    # A changed configuration makes new pods.
    checksum/config: {{ include "tidegate.config" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "tidegate.account" . }}
  {{- if not (or .Values.serviceAccount.create .Values.rbac.create $a.discovery.enabled) }}
  automountServiceAccountToken: false
  {{- end }}
  {{- with .Values.global.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.podSecurityContext }}
  securityContext: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.hostNetwork }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  terminationGracePeriodSeconds: {{ add .Values.drain.delay .Values.drain.timeout 10 }}
  {{- with .Values.extraInitContainers }}
  initContainers: {{- tpl (toYaml .) $ | nindent 4 }}
  {{- end }}
  containers:
    - name: tidegate
      image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag | toString) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [run]
      {{- with .Values.securityContext }}
      securityContext: {{- toYaml . | nindent 8 }}
      {{- end }}
      env: {{- include "tidegate.environment" . | nindent 8 }}
      ports: {{- include "tidegate.ports" . | nindent 8 }}
      {{- if and (gt (int .Values.drain.delay) 0) (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) }}
      lifecycle:
        preStop:
          sleep:
            seconds: {{ .Values.drain.delay }}
      {{- end }}
      startupProbe:
        httpGet: {path: /status, port: status}
        periodSeconds: 1
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /status, port: status}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /status/ready, port: status}
        periodSeconds: 2
        failureThreshold: 3
      {{- with .Values.resources }}
      resources: {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - {name: config, mountPath: /etc/tidegate, readOnly: true}
        - {name: data, mountPath: /var/lib/tidegate}
        - {name: tmp, mountPath: /tmp}
        {{- if eq $provider "file" }}
        - {name: resources, mountPath: /var/lib/tidegate/conf, readOnly: true}
        {{- end }}
        {{- if and $a.ssl.existingCASecret $a.ssl.certCAFilename }}
        - {name: ca, mountPath: /etc/tidegate-ca, readOnly: true}
        {{- end }}
        {{- if and (eq $provider "etcd") .Values.etcd.auth.tls.enabled }}
        - {name: etcd-ssl, mountPath: /etc/etcd-ssl, readOnly: true}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.extraContainers }}
    {{- tpl (toYaml .) $ | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ $name }}}
    - name: tmp
      emptyDir: {}
    {{- if not (and (eq (include "tidegate.kind" .) "StatefulSet") .Values.persistence.enabled) }}
    - name: data
      emptyDir: {}
    {{- end }}
    {{- if eq $provider "file" }}
    - name: resources
      configMap: {name: {{ default (printf "%s-resources" $name) $a.deployment.standalone.existingConfigMap }}}
    {{- end }}
    {{- if and $a.ssl.existingCASecret $a.ssl.certCAFilename }}
    - name: ca
      secret: {secretName: {{ $a.ssl.existingCASecret }}}
    {{- end }}
    {{- if and (eq $provider "etcd") .Values.etcd.auth.tls.enabled }}
    - name: etcd-ssl
      secret: {secretName: {{ .Values.etcd.auth.tls.existingSecret }}}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints: {{- tpl (toYaml .) $ | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "tidegate.environment" -}}
- {name: TIDEGATE_PREFIX, value: /var/lib/tidegate}
- {name: TIDEGATE_CONFIG, value: /etc/tidegate/config.yaml}
{{- with .Values.timezone }}
- {name: TZ, value: {{ . | quote }}}
{{- end }}
{{- $credentials := .Values.apisix.admin.credentials }}
{{- if and (include "tidegate.hasAdmin" .) (or $credentials.secretName (not .Values.apisix.fullCustomConfig.enabled)) }}
- name: APISIX_ADMIN_KEY
  valueFrom:
    secretKeyRef: {name: {{ include "tidegate.adminSecret" . }}, key: {{ default "admin" $credentials.secretAdminKey }}}
- name: APISIX_VIEWER_KEY
  valueFrom:
    secretKeyRef: {name: {{ include "tidegate.adminSecret" . }}, key: {{ default "viewer" $credentials.secretViewerKey }}}
{{- end }}
{{- if and (eq (include "tidegate.provider" .) "embedded") (not .Values.apisix.keyring) }}
- name: TIDEGATE_KEYRING
  valueFrom:
    secretKeyRef: {name: {{ include "tidegate.fullname" . }}-keyring, key: keyring}
{{- end }}
{{- if and (eq (include "tidegate.provider" .) "etcd") (not .Values.etcd.enabled) .Values.externalEtcd.user }}
- name: APISIX_ETCD_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ default (printf "%s-etcd" (include "tidegate.fullname" .)) .Values.externalEtcd.existingSecret }}, key: {{ .Values.externalEtcd.secretPasswordKey }}}
{{- end }}
{{- with .Values.extraEnvVars }}
{{ tpl (toYaml .) $ }}
{{- end }}
{{- end }}

{{- define "tidegate.ports" -}}
{{- $a := .Values.apisix }}
- {name: status, containerPort: {{ $a.status.port }}}
{{- if .Values.service.http.enabled }}
- {name: http, containerPort: {{ .Values.service.http.containerPort }}}
{{- range .Values.service.http.additionalContainerPorts }}
- {name: {{ printf "http-%v" .port }}, containerPort: {{ .port }}}
{{- end }}
{{- end }}
{{- if $a.ssl.enabled }}
- {name: tls, containerPort: {{ $a.ssl.containerPort }}}
{{- range $a.ssl.additionalContainerPorts }}
- {name: {{ printf "tls-%v" .port }}, containerPort: {{ .port }}}
{{- end }}
{{- end }}
{{- if include "tidegate.hasAdmin" . }}
- {name: admin, containerPort: {{ $a.admin.port }}}
{{- end }}
{{- if .Values.control.enabled }}
- {name: control, containerPort: {{ .Values.control.service.port }}}
{{- end }}
{{- if $a.prometheus.enabled }}
- {name: prometheus, containerPort: {{ $a.prometheus.containerPort }}}
{{- end }}
{{- if .Values.service.stream.enabled }}
{{- range $index, $port := .Values.service.stream.tcp }}
- {name: proxy-tcp-{{ $index }}, containerPort: {{ include "tidegate.streamPort" $port }}}
{{- end }}
{{- range $index, $port := .Values.service.stream.udp }}
- {name: proxy-udp-{{ $index }}, containerPort: {{ include "tidegate.streamPort" $port }}, protocol: UDP}
{{- end }}
{{- end }}
{{- end }}

{{/* A port is a number, ADDRESS:PORT, or {addr, tls}. */}}
{{- define "tidegate.streamPort" -}}
{{- $address := . }}
{{- if kindIs "map" . }}{{ $address = .addr }}{{ end }}
{{- $address | toString | splitList ":" | last }}
{{- end }}
