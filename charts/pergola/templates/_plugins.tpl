{{/*
The plugins that are run, by name, as JSON. Each has what its values say, and where its file is: `mode` is inImage for those in the image of the host,
pulled for those that the host takes from other images, and `hostCluster` is there for those that get access to the cluster of the Pods.
*/}}
{{- define "pergola.plugins" -}}
{{- $all := dict }}
{{- range $name, $plugin := .Values.plugins }}
{{- if $plugin.enabled }}
{{- $_ := set $all $name (merge (dict "mode" "inImage" "file" $name) $plugin) }}
{{- end }}
{{- end }}
{{- with get $all "container" }}
{{- $account := dict "namespace" (include "pergola.podsNamespace" $) "name" .pods.serviceAccount }}
{{- $_ := set . "hostCluster" (dict "serviceAccount" $account) }}
{{- $_ := set . "config" (include "pergola.containerConfig" $ | fromJson) }}
{{- end }}
{{- range $name, $plugin := .Values.extraPlugins }}
{{- if hasKey $all $name }}
{{- fail (printf "extraPlugins.%s: is the name of a plugin of the image, too; set plugins.%s.enabled to false to put this one in its place" $name $name) }}
{{- end }}
{{- $_ := set $all $name (merge (dict) $plugin (dict "mode" "initContainer" "file" $name)) }}
{{- end }}
{{- toJson $all }}
{{- end }}

{{/* The namespace in which the container deployer runs Pods. */}}
{{- define "pergola.podsNamespace" -}}
{{- default (printf "%s-pods" (include "pergola.fullname" .) | include "pergola.shorten") .Values.plugins.container.pods.namespace }}
{{- end }}

{{/* The configuration document of the container deployer, as JSON: what the values say, and the image of its helper if they do not. */}}
{{- define "pergola.containerConfig" -}}
{{- $helper := include "pergola.image" (dict "image" .Values.plugins.container.helperImage "tag" .Chart.AppVersion) }}
{{- $defaults := dict "apiVersion" "container.pergola.dev/v1alpha1" "kind" "ContainerConfiguration" "initContainer" (dict "image" $helper) }}
{{- merge (deepCopy .Values.plugins.container.config) $defaults | toJson }}
{{- end }}

{{/*
The Deployments of the release, as JSON below `deployments`. Each has a name, a component by which its Pods are known, the names of its plugins, and
how large it is.
*/}}
{{- define "pergola.deployments" -}}
{{- $root := . }}
{{- $plugins := include "pergola.plugins" . | fromJson }}
{{- $deployments := list }}
{{- if .Values.deploymentPerPlugin }}
{{- $everywhere := list }}
{{- range $name, $plugin := $plugins }}
{{- if $plugin.everywhere }}{{ $everywhere = append $everywhere $name }}{{ end }}
{{- end }}
{{- range $name, $plugin := $plugins }}
{{- if not $plugin.everywhere }}
{{- $own := default dict $plugin.deployment }}
{{- $deployments = append $deployments (dict
  "name" (printf "%s-%s" (include "pergola.fullname" $root) $name | include "pergola.shorten")
  "component" $name
  "plugins" (prepend $everywhere $name | sortAlpha)
  "resources" (default $root.Values.resources $own.resources)
  "replicas" (default $root.Values.replicaCount $own.replicaCount)
  "minReplicas" (default $root.Values.autoscaling.minReplicas $own.minReplicas)
  "maxReplicas" (default $root.Values.autoscaling.maxReplicas $own.maxReplicas)) }}
{{- end }}
{{- end }}
{{- else if $plugins }}
{{- $deployments = append $deployments (dict
  "name" (include "pergola.fullname" .)
  "component" "host"
  "plugins" (keys $plugins | sortAlpha)
  "resources" .Values.resources
  "replicas" .Values.replicaCount
  "minReplicas" .Values.autoscaling.minReplicas
  "maxReplicas" .Values.autoscaling.maxReplicas) }}
{{- end }}
{{- dict "deployments" $deployments | toJson }}
{{- end }}

{{/* The most replicas that a Deployment can have: {root, deployment}. */}}
{{- define "pergola.mostReplicas" -}}
{{- ternary .deployment.maxReplicas .deployment.replicas .root.Values.autoscaling.enabled | int }}
{{- end }}

{{/* The ServiceAccount of a Deployment's Pods: {root, deployment}. */}}
{{- define "pergola.serviceAccount" -}}
{{- $values := .root.Values.serviceAccount }}
{{- default (ternary .deployment.name "default" $values.create) $values.name }}
{{- end }}

{{/* The ServiceAccounts of the Deployments that have one of some plugins, as subjects: {root, plugins}, where no plugins stand for all. */}}
{{- define "pergola.subjects" -}}
{{- $names := list }}
{{- range (include "pergola.deployments" .root | fromJson).deployments }}
{{- $account := include "pergola.serviceAccount" (dict "root" $.root "deployment" .) }}
{{- range $plugin := .plugins }}
{{- if or (not $.plugins) (has $plugin $.plugins) }}{{ $names = append $names $account }}{{ end }}
{{- end }}
{{- end }}
{{- range uniq $names }}
- kind: ServiceAccount
  name: {{ . }}
  namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end }}
