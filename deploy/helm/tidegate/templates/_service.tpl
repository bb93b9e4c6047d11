{{/* A Service: root, name, values (type, annotations and addresses) and ports. */}}
{{- define "tidegate.service" -}}
{{- $root := .root }}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "tidegate.fullname" $root }}-{{ .name }}
  labels:
    {{- include "tidegate.labels" $root | nindent 4 }}
    app.kubernetes.io/service: {{ .label }}
  {{- with .values.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ .values.type }}
  {{- if and (ne .values.type "ClusterIP") .values.externalTrafficPolicy }}
  externalTrafficPolicy: {{ .values.externalTrafficPolicy }}
  {{- end }}
  {{- with .values.externalIPs }}
  externalIPs: {{ toJson . }}
  {{- end }}
  {{- if eq .values.type "LoadBalancer" }}
  {{- with .values.loadBalancerIP }}
  loadBalancerIP: {{ . }}
  {{- end }}
  {{- with .values.loadBalancerSourceRanges }}
  loadBalancerSourceRanges: {{ toJson . }}
  {{- end }}
  {{- end }}
  selector: {{- include "tidegate.selector" $root | nindent 4 }}
  ports: {{- .ports | nindent 4 }}
{{- end }}

{{/* A port of a Service: values, name, port, target, node. */}}
{{- define "tidegate.port" -}}
- name: {{ .name }}
  port: {{ .port }}
  targetPort: {{ .target }}
  protocol: {{ default "TCP" .protocol }}
  {{- if and .node (ne .type "ClusterIP") }}
  nodePort: {{ .node }}
  {{- end }}
{{- end }}

{{- define "tidegate.gatewayPorts" -}}
{{- $service := .Values.service }}
{{- $type := $service.type }}
{{- if $service.http.enabled }}
{{ include "tidegate.port" (dict "type" $type "name" "http" "port" $service.http.servicePort "target" $service.http.containerPort "node" $service.http.nodePort) }}
{{- range $service.http.additionalContainerPorts }}
{{ include "tidegate.port" (dict "type" $type "name" (printf "http-%v" .port) "port" .port "target" .port) }}
{{- end }}
{{- end }}
{{- if .Values.apisix.ssl.enabled }}
{{ include "tidegate.port" (dict "type" $type "name" "tls" "port" $service.tls.servicePort "target" .Values.apisix.ssl.containerPort "node" $service.tls.nodePort) }}
{{- range .Values.apisix.ssl.additionalContainerPorts }}
{{ include "tidegate.port" (dict "type" $type "name" (printf "tls-%v" .port) "port" .port "target" .port) }}
{{- end }}
{{- end }}
{{- if $service.stream.enabled }}
{{- range $index, $port := $service.stream.tcp }}
{{- $number := include "tidegate.streamPort" $port }}
{{ include "tidegate.port" (dict "type" $type "name" (printf "proxy-tcp-%v" $index) "port" $number "target" $number) }}
{{- end }}
{{- range $index, $port := $service.stream.udp }}
{{- $number := include "tidegate.streamPort" $port }}
{{ include "tidegate.port" (dict "type" $type "name" (printf "proxy-udp-%v" $index) "port" $number "target" $number "protocol" "UDP") }}
{{- end }}
{{- end }}
{{- end }}

{{/* An Ingress: root, name, values, service and port. */}}
{{- define "tidegate.ingress" -}}
{{- $service := printf "%s-%s" (include "tidegate.fullname" .root) .service }}
{{- $port := .port }}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ include "tidegate.fullname" .root }}{{ .name }}
  labels: {{- include "tidegate.labels" .root | nindent 4 }}
  {{- with .values.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .values.className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .values.tls }}
  tls: {{- toYaml . | nindent 4 }}
  {{- end }}
  rules:
    {{- range .values.hosts }}
    - host: {{ .host | quote }}
      http:
        paths:
          {{- range default (list "/") .paths }}
          - path: {{ trimSuffix "*" . | quote }}
            pathType: Prefix
            backend:
              service:
                name: {{ $service }}
                port: {number: {{ $port }}}
          {{- end }}
    {{- end }}
{{- end }}
