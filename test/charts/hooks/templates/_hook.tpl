{{- define "hooks.metadata" -}}
name: {{ .name }}
labels:
  {{- include "hooks.labels" .root | nindent 2 }}
annotations:
  helm.sh/hook: {{ .hook.events }}
  helm.sh/hook-weight: {{ .hook.weight | quote }}
  {{- with .hook.deletePolicy }}
  helm.sh/hook-delete-policy: {{ . }}
  {{- end }}
{{- end -}}

{{- define "hooks.pod" -}}
spec:
  restartPolicy: Never
  containers:
    - name: hook
      image: {{ .Values.jobs.image }}
      {{- with .Values.jobs.command }}
      command:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}
