{{/* The plugins of a Deployment that are not in the image of the host: {root, deployment}. Not empty if the plugin directory is a volume. */}}
{{- define "pergola.hasPluginVolume" -}}
{{- $all := include "pergola.plugins" .root | fromJson }}
{{- range .deployment.plugins }}
{{- if not (has (get $all .).mode (list "inImage" "pulled")) }}{{ . }} {{ end }}
{{- end }}
{{- end }}

{{/* The plugins of a Deployment that the host takes from images: {root, deployment}. */}}
{{- define "pergola.pulledPlugins" -}}
{{- $all := include "pergola.plugins" .root | fromJson }}
{{- range .deployment.plugins }}
{{- if eq (get $all .).mode "pulled" }}{{ . }} {{ end }}
{{- end }}
{{- end }}

{{/* What the Pods of a Deployment look like: {root, deployment}. */}}
{{- define "pergola.pod" -}}
{{- $root := .root }}
{{- $values := .root.Values }}
{{- $plugins := include "pergola.plugins" .root | fromJson }}
{{- $pluginVolume := include "pergola.hasPluginVolume" . }}
{{- $pulled := include "pergola.pulledPlugins" . }}
metadata:
  labels:
    {{- merge (include "pergola.deploymentSelector" . | fromYaml) $values.podLabels $values.commonLabels | toYaml | nindent 4 }}
  annotations:
    kubectl.kubernetes.io/default-container: pergola
    checksum/configuration: {{ include "pergola.hostConfiguration" . | sha256sum }}
    {{- with $values.landscaperCluster.kubeconfig }}
    checksum/kubeconfig: {{ . | sha256sum }}
    {{- end }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "pergola.serviceAccount" . }}
  # Plugins of others run as init containers, and the host's rights are not for them: container pergola alone mounts its token.
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "pergola.gracePeriod" $root }}
  {{- with $values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if $values.topologySpread.enabled }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ $values.topologySpread.whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- include "pergola.deploymentSelector" $ | nindent 10 }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
  {{- if $pluginVolume }}
  initContainers:
    {{- include "pergola.initContainers" . | trim | nindent 4 }}
  {{- end }}
  containers:
    - name: pergola
      image: {{ include "pergola.hostImage" $root }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args:
        - host
        - --config=/etc/pergola/configuration/host.yaml
        {{- if include "pergola.isStandalone" $root }}
        - --standalone
        {{- end }}
        {{- if include "pergola.hasLandscaperCluster" $root }}
        - --kubeconfig=/etc/pergola/landscaper-cluster/kubeconfig
        - --host-kubeconfig=/etc/pergola/own-cluster/kubeconfig
        {{- end }}
      env:
        - name: MY_POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: MY_POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        {{- if and $pulled $values.imagePullSecrets }}
        - {name: DOCKER_CONFIG, value: /etc/pergola/pull-secret}
        {{- end }}
        {{- with $values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: metrics, containerPort: {{ $values.metrics.port }}, protocol: TCP}
        {{- if $values.statusPage.enabled }}
        - {name: status-page, containerPort: {{ $values.statusPage.port }}, protocol: TCP}
        {{- end }}
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        {{- toYaml $values.startupProbe | nindent 8 }}
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        {{- toYaml $values.livenessProbe | nindent 8 }}
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        {{- toYaml $values.readinessProbe | nindent 8 }}
      {{- with .deployment.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - {name: configuration, mountPath: /etc/pergola/configuration, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
        {{- if $pluginVolume }}
        - {name: plugins, mountPath: /plugins, readOnly: true}
        {{- end }}
        {{- if $pulled }}
        - {name: plugin-cache, mountPath: /var/cache/pergola}
        {{- if $values.imagePullSecrets }}
        - {name: pull-secret, mountPath: /etc/pergola/pull-secret, readOnly: true}
        {{- end }}
        {{- end }}
        {{- if include "pergola.hasLandscaperCluster" $root }}
        - {name: landscaper-cluster, mountPath: /etc/pergola/landscaper-cluster, readOnly: true}
        - {name: own-cluster, mountPath: /etc/pergola/own-cluster, readOnly: true}
        {{- end }}
        {{- with $values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- include "pergola.volumes" . | trim | nindent 4 }}
{{- end }}

{{/*
The containers that fill the plugin directory: {root, deployment}. Plugins of others install themselves, each into a volume of its own, where it can
reach no other plugin. Our image then puts all of them together.
*/}}
{{- define "pergola.initContainers" -}}
{{- $values := .root.Values }}
{{- $all := include "pergola.plugins" .root | fromJson }}
{{- $files := list }}
{{- $mounts := list (dict "name" "plugins" "mountPath" "/to") }}
{{- range $name := .deployment.plugins }}
{{- with get $all $name }}
{{- if eq .mode "inImage" }}
{{- $files = append $files (printf "/plugins/%s" .file) }}
{{- else if ne .mode "pulled" }}
{{- $path := ternary .file (default .file .path | trimPrefix "/") (eq .mode "initContainer") }}
{{- $files = append $files (printf "%s=/from/%s/%s" .file $name $path) }}
{{- $mounts = append $mounts (dict "name" (include "pergola.pluginName" $name) "mountPath" (printf "/from/%s" $name) "readOnly" true) }}
{{- end }}
{{- if eq .mode "initContainer" }}
- name: {{ include "pergola.pluginName" $name }}
  image: {{ include "pergola.image" (dict "image" .image "tag" "") }}
  imagePullPolicy: {{ default $values.image.pullPolicy .image.pullPolicy }}
  {{- with .command }}
  command: {{ toJson . }}
  {{- end }}
  args: [install, --to=/to, --as={{ .file }}]
  {{- include "pergola.initContainerLimits" $ }}
  volumeMounts:
    - {name: {{ include "pergola.pluginName" $name }}, mountPath: /to}
{{- end }}
{{- end }}
{{- end }}
- name: plugins
  image: {{ include "pergola.hostImage" .root }}
  imagePullPolicy: {{ $values.image.pullPolicy }}
  args: {{ concat (list "plugins" "install" "--to=/to") $files | toJson }}
  {{- include "pergola.initContainerLimits" . }}
  volumeMounts:
    {{- toYaml $mounts | nindent 4 }}
{{- end }}

{{/* What a container that fills the plugin directory may use and do, as the host's: {root, deployment}. */}}
{{- define "pergola.initContainerLimits" -}}
{{- with .deployment.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- with .root.Values.securityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{/* What container or volume of a plugin is called. */}}
{{- define "pergola.pluginName" -}}
{{ printf "plugin-%s" . | include "pergola.shorten" }}
{{- end }}

{{/* The volumes of a Deployment's Pods: {root, deployment}. */}}
{{- define "pergola.volumes" -}}
{{- $values := .root.Values }}
{{- $fullname := include "pergola.fullname" .root }}
{{- $all := include "pergola.plugins" .root | fromJson }}
- name: configuration
  secret: {secretName: {{ .deployment.name }}-configuration}
- name: tmp
  emptyDir: {sizeLimit: {{ $values.temporarySizeLimit }}}
- name: token
  projected:
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- if include "pergola.hasPluginVolume" . }}
- name: plugins
  emptyDir: {sizeLimit: {{ $values.pluginDirectorySizeLimit }}}
{{- end }}
{{- if include "pergola.pulledPlugins" . }}
- name: plugin-cache
  emptyDir: {sizeLimit: {{ $values.pluginDirectorySizeLimit }}}
{{- with $values.imagePullSecrets }}
- name: pull-secret
  secret: {secretName: {{ (first .).name }}, optional: true, items: [{key: .dockerconfigjson, path: config.json}]}
{{- end }}
{{- end }}
{{- range $name := .deployment.plugins }}
{{- with get $all $name }}
{{- if eq .mode "imageVolume" }}
- name: {{ include "pergola.pluginName" $name }}
  image:
    reference: {{ include "pergola.image" (dict "image" .image "tag" "") }}
    pullPolicy: {{ default $values.image.pullPolicy .image.pullPolicy }}
{{- else if eq .mode "initContainer" }}
- name: {{ include "pergola.pluginName" $name }}
  emptyDir: {sizeLimit: {{ $values.pluginDirectorySizeLimit }}}
{{- end }}
{{- end }}
{{- end }}
{{- if include "pergola.hasLandscaperCluster" .root }}
- name: landscaper-cluster
  secret:
    secretName: {{ default (printf "%s-landscaper-cluster" $fullname) $values.landscaperCluster.secretRef.name }}
    items:
      - {key: {{ $values.landscaperCluster.secretRef.key }}, path: kubeconfig}
- name: own-cluster
  configMap: {name: {{ $fullname }}-own-cluster}
{{- end }}
{{- with $values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
