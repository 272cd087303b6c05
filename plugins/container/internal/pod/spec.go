package pod

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

const (
	// user, group and volumeGroup are whom images have always been run as.
	user, group, volumeGroup = int64(1000), int64(3000), int64(2000)
	// grace is how long a container has to end when its Pod is deleted, in seconds.
	grace = int64(300)

	sharedVolume   = "shared"
	inputVolume    = "input"
	oldStateVolume = "old-state"
	accessVolume   = "access"
	trustVolume    = "authorities"
	tokenVolume    = "service-account"
	tokenPath      = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // no credentials
	// tokenSeconds is how long a token of a ServiceAccount lives before the kubelet has replaced it; it is Kubernetes'
	// own figure.
	tokenSeconds = int64(3607)
	// authorities is the ConfigMap with the certificates of the API server's authorities that Kubernetes keeps in each
	// namespace.
	authorities = "kube-root-ca.crt"
)

// Template is what a Pod is made of, beside its identity.
type Template struct {
	// Image, Command and Args of main.
	Image         string
	Command, Args []string
	Resources     corev1.ResourceRequirements
	NodeSelector  map[string]string
	Tolerations   []corev1.Toleration
	// ServiceAccountName is whose token main gets; empty for none.
	ServiceAccountName string
	// PullSecrets: there are credentials for registries.
	PullSecrets bool
	// Inputs is how many chunks of input there are.
	Inputs int
	// OldState are the names of the Secrets with the state of before, in the order of their chunks.
	OldState []string
	// Deadline is how long the Pod may run; 0 for ever.
	Deadline time.Duration
	// Init and Wait are Pergola's own containers.
	Init, Wait Helper
	// Overlay is merged into the Pod at last, as `kubectl patch` does it; nil for none.
	Overlay json.RawMessage
}

// Helper is a container of Pergola's own, as an operator writes it.
type Helper struct {
	// Image of the helper. Required for the init container.
	Image string `json:"image,omitempty"`
	// Command and Args take the place of those of the helper.
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	// ImagePullPolicy defaults to what Kubernetes makes of the image's tag.
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
}

// Pod returns the Pod. The error is that of the overlay.
func (i Identity) Pod(t *Template) (*corev1.Pod, error) {
	meta := i.meta(i.RunName(), PartPod)
	meta.Annotations[OperationAnnotation] = string(i.Operation)
	meta.Finalizers = []string{Finalizer}
	p := &corev1.Pod{ObjectMeta: meta, Spec: i.podSpec(t)}
	if len(t.Overlay) == 0 {
		return p, nil
	}
	content, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write the Pod: %w", err)
	}
	merged, err := strategicpatch.StrategicMergePatch(content, t.Overlay, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("merge podTemplate into the Pod: %w", err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(merged, out); err != nil {
		return nil, fmt.Errorf("read the Pod with podTemplate in it: %w", err)
	}
	// By these it is found.
	out.Name, out.Namespace, out.Finalizers = meta.Name, meta.Namespace, meta.Finalizers
	out.Labels, out.Annotations = merge(out.Labels, meta.Labels), merge(out.Annotations, meta.Annotations)
	return out, nil
}

// merge returns the entries of both maps. Those of the second one count.
func merge(first, second map[string]string) map[string]string {
	all := maps.Clone(second)
	maps.Copy(all, first)
	maps.Copy(all, second)
	return all
}

func (i Identity) podSpec(t *Template) corev1.PodSpec {
	spec := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: new(grace),
		// Tokens are mounted into single containers.
		AutomountServiceAccountToken: new(false),
		// What other Services there are in the namespace is none of the image's business.
		EnableServiceLinks: new(false),
		ServiceAccountName: cmp.Or(t.ServiceAccountName, i.RunName()),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsUser: new(user), RunAsGroup: new(group), FSGroup: new(volumeGroup), RunAsNonRoot: new(true),
		},
		NodeSelector: t.NodeSelector, Tolerations: t.Tolerations,
		InitContainers: []corev1.Container{i.initContainer(t), i.waitContainer(t)},
		Containers:     []corev1.Container{i.mainContainer(t)},
		Volumes:        i.volumes(t),
	}
	if t.PullSecrets {
		spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: pullName(i.RunName())}}
	}
	if t.Deadline > 0 {
		spec.ActiveDeadlineSeconds = new(max(1, int64(t.Deadline/time.Second)))
	}
	return spec
}

func (i Identity) mainContainer(t *Template) corev1.Container {
	main := corev1.Container{
		Name: layout.MainContainer, Image: t.Image, Command: t.Command, Args: t.Args, Resources: t.Resources,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Env: append(environment(),
			corev1.EnvVar{Name: layout.OperationVariable, Value: string(i.Operation)}),
		VolumeMounts: []corev1.VolumeMount{{Name: sharedVolume, MountPath: path.Join(layout.Base, layout.Shared)}},
		// What it says last is its message, unless it writes one.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	if t.ServiceAccountName != "" {
		token := corev1.VolumeMount{Name: tokenVolume, MountPath: tokenPath, ReadOnly: true}
		main.VolumeMounts = append(main.VolumeMounts, token)
	}
	return main
}

func (i Identity) initContainer(t *Template) corev1.Container {
	c := i.helper(layout.InitContainer, &t.Init)
	c.VolumeMounts = append(c.VolumeMounts, readOnly(inputVolume, layout.Input), readOnly(trustVolume, layout.Access))
	if len(t.OldState) > 0 {
		c.VolumeMounts = append(c.VolumeMounts, readOnly(oldStateVolume, layout.OldState))
	}
	return c
}

func readOnly(volume, at string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: path.Join(layout.Base, at), ReadOnly: true}
}

// waitContainer runs beside main until that has ended, when Kubernetes ends it, too.
func (i Identity) waitContainer(t *Template) corev1.Container {
	c := i.helper(layout.WaitContainer, &t.Wait)
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	c.VolumeMounts = append(c.VolumeMounts, readOnly(accessVolume, layout.Access))
	return c
}

func (i Identity) helper(name string, h *Helper) corev1.Container {
	c := corev1.Container{
		Name: name, Image: h.Image, Command: h.Command, Args: h.Args, ImagePullPolicy: h.ImagePullPolicy,
		Env: append(environment(),
			corev1.EnvVar{Name: layout.DeployItemNameVariable, Value: i.Name},
			corev1.EnvVar{Name: layout.DeployItemNamespaceVariable, Value: i.Namespace}),
		VolumeMounts: []corev1.VolumeMount{{Name: sharedVolume, MountPath: path.Join(layout.Base, layout.Shared)}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	if len(c.Args) == 0 {
		c.Args = []string{name}
	}
	return c
}

// environment is what all containers have.
func environment() []corev1.EnvVar {
	paths := layout.Variables(layout.Base)
	env := make([]corev1.EnvVar, 0, len(paths)+2)
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		env = append(env, corev1.EnvVar{Name: name, Value: paths[name]})
	}
	of := func(field string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}
	}
	return append(env,
		corev1.EnvVar{Name: layout.PodNameVariable, ValueFrom: of("metadata.name")},
		corev1.EnvVar{Name: layout.PodNamespaceVariable, ValueFrom: of("metadata.namespace")})
}

func (i Identity) volumes(t *Template) []corev1.Volume {
	run := i.RunName()
	input := make([]corev1.VolumeProjection, 0, t.Inputs)
	for number := range t.Inputs {
		input = append(input, secretFile(inputName(run, number), inputKey, layout.ChunkFile(number)))
	}
	volumes := []corev1.Volume{
		{Name: sharedVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		projected(inputVolume, input),
		projected(accessVolume, []corev1.VolumeProjection{
			secretFile(accessName(run), layout.TokenFile, layout.TokenFile),
			secretFile(accessName(run), layout.UploadFile, layout.UploadFile),
			authoritiesFile(),
			ifThere(secretFile(accessName(run), layout.EndedFile, layout.EndedFile)),
		}),
		projected(trustVolume, []corev1.VolumeProjection{authoritiesFile()}),
	}
	if len(t.OldState) > 0 {
		state := make([]corev1.VolumeProjection, 0, len(t.OldState))
		for number, name := range t.OldState {
			state = append(state, secretFile(name, layout.ChunkKey, layout.ChunkFile(number)))
		}
		volumes = append(volumes, projected(oldStateVolume, state))
	}
	if t.ServiceAccountName != "" {
		volumes = append(volumes, projected(tokenVolume, []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Path: "token", ExpirationSeconds: new(tokenSeconds),
			}},
			authoritiesFile(),
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"},
			}}}},
		}))
	}
	return volumes
}

// projected is a volume that the group of volumes can read.
func projected(name string, sources []corev1.VolumeProjection) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: new(int32(0o440))},
	}}
}

func secretFile(name, key, file string) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: name},
		Items:                []corev1.KeyToPath{{Key: key, Path: file}},
	}}
}

// ifThere makes a file of a Secret one that may come later.
func ifThere(file corev1.VolumeProjection) corev1.VolumeProjection {
	file.Secret.Optional = new(true)
	return file
}

func authoritiesFile() corev1.VolumeProjection {
	return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: authorities},
		Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: layout.AuthoritiesFile}},
	}}
}
