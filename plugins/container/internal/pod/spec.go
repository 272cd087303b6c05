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
	// user, group and volumeGroup are the IDs images have always been run with.
	user, group, volumeGroup = int64(1000), int64(3000), int64(2000)
	// grace is the grace period of a container at the deletion of its Pod, in seconds.
	grace = int64(300)

	sharedVolume   = "shared"
	inputVolume    = "input"
	oldStateVolume = "old-state"
	accessVolume   = "access"
	trustVolume    = "authorities"
	tokenVolume    = "service-account"
	tokenPath      = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // no credentials
	// tokenSeconds is the lifetime of a ServiceAccount token before its replacement by the kubelet: Kubernetes' own
	// figure.
	tokenSeconds = int64(3607)
	// authorities is Kubernetes' ConfigMap in each namespace with the certificates of the API server's authorities.
	authorities = "kube-root-ca.crt"
)

// Template is the content of a Pod, beside its identity.
type Template struct {
	// Image, Command and Args of main.
	Image         string
	Command, Args []string
	Resources     corev1.ResourceRequirements
	NodeSelector  map[string]string
	Tolerations   []corev1.Toleration
	// ServiceAccountName is the ServiceAccount of main's token; empty for none.
	ServiceAccountName string
	// PullSecrets: there are credentials for registries.
	PullSecrets bool
	// Inputs is the number of chunks of the input.
	Inputs int
	// OldState are the names of the Secrets with the previous state, in the order of their chunks.
	OldState []string
	// Deadline bounds the run time of the Pod; 0 for no bound.
	Deadline time.Duration
	// Init and Wait are Pergola's own containers.
	Init, Wait Helper
	// Overlay is merged into the Pod at last, as by `kubectl patch`; nil for none.
	Overlay json.RawMessage
}

// Helper is one of Pergola's own containers in the operator's configuration.
type Helper struct {
	// Image of the helper. Required for the init container.
	Image string `json:"image,omitempty"`
	// Command and Args replace those of the helper.
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	// ImagePullPolicy defaults to Kubernetes' default for the image's tag.
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
}

// Pod returns the Pod. Errors are about the overlay.
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
		// Other Services of the namespace are none of the image's business.
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
		// Its last lines are its message, unless it writes one.
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

// waitContainer returns a native sidecar: Kubernetes ends it after main.
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

// environment returns the variables of all containers.
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

// projected returns a volume readable for the group of volumes.
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

// ifThere makes a file of a Secret optional: it may come later.
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
