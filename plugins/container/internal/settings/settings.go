// Package settings reads the configuration document of the container plugin itself, which an operator writes.
package settings

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pergola-deploy/pergola/plugins/container/internal/run"
	"github.com/pergola-deploy/pergola/plugins/internal/settingsfile"
	"github.com/pergola-deploy/pergola/sdk"
)

const (
	// APIVersion of the document.
	APIVersion = "container.pergola.dev/v1alpha1"
	// Kind of the document.
	Kind = "ContainerConfiguration"
)

// ContainerConfiguration is the document. In the HostConfiguration it stands in plugins.container.config. Amounts are texts as Kubernetes
// has them for memory, such as 512Mi, and times are texts as Go has them, such as 90s or 1h30m.
type ContainerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Strict says whether an unknown field of a provider configuration fails its job. With false it is passed over, as Landscaper does, and
	// told by a warning event. Defaults to true.
	Strict *bool `json:"strict,omitempty"`
	// Namespace of the host cluster that Pods are run in, with all that belongs to them. It should have nothing else in it. Defaults to that
	// of the ServiceAccount which the HostConfiguration grants.
	Namespace string `json:"namespace,omitempty"`
	// DefaultImage is run for provider configurations without an image. There is none by default.
	DefaultImage string `json:"defaultImage,omitempty"`
	// InitContainer and WaitContainer run Pergola's helper beside the image. WaitContainer defaults to the image of InitContainer.
	InitContainer HelperConfiguration `json:"initContainer,omitempty"`
	WaitContainer HelperConfiguration `json:"waitContainer,omitempty"`
	// ServiceAccounts are the names of those that a provider configuration may choose for a Pod on the host cluster. None by default.
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
	// Resources are those of containers whose provider configuration has none.
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// PodTemplate is merged into each Pod, as `kubectl patch` does it: metadata.labels, metadata.annotations and spec.
	PodTemplate json.RawMessage `json:"podTemplate,omitempty"`
	// Debug helps to find out what is wrong.
	Debug DebugConfiguration `json:"debug,omitempty"`
	// ImagePullPatience is for how long an image may fail to be pulled before the job fails. Defaults to 1m.
	ImagePullPatience *string `json:"imagePullPatience,omitempty"`
	// Limits bounds what a container may leave behind.
	Limits LimitsConfiguration `json:"limits,omitempty"`
	// GarbageCollection removes what belongs to deploy items that are gone.
	GarbageCollection GarbageCollectionConfiguration `json:"garbageCollection,omitempty"`
}

// HelperConfiguration is a container of Pergola's own.
type HelperConfiguration struct {
	// Image of the helper. Required for the init container.
	Image string `json:"image,omitempty"`
	// Command and Args take the place of those of the helper.
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	// ImagePullPolicy defaults to what Kubernetes makes of the image's tag.
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
}

// DebugConfiguration helps to find out what is wrong.
type DebugConfiguration struct {
	// KeepPod keeps a Pod that has ended until the next one of its deploy item, or until that is deleted.
	KeepPod bool `json:"keepPod,omitempty"`
}

// LimitsConfiguration bounds what a container may leave behind.
type LimitsConfiguration struct {
	// State is how large the packed state may be. Defaults to 10Mi.
	State *string `json:"state,omitempty"`
	// Exports is how large the file with the exports may be. Defaults to 512Ki.
	Exports *string `json:"exports,omitempty"`
}

// GarbageCollectionConfiguration says whether things are removed whose deploy item is gone.
type GarbageCollectionConfiguration struct {
	// Disable keeps them.
	Disable bool `json:"disable,omitempty"`
}

// Settings are what a document says, with all defaults.
type Settings struct {
	Strict bool
	// Namespace is empty for that of the ServiceAccount.
	Namespace       string
	DefaultImage    string
	Init, Wait      HelperConfiguration
	ServiceAccounts []string
	Resources       corev1.ResourceRequirements
	// PodTemplate is nil if there is none.
	PodTemplate         json.RawMessage
	KeepPod             bool
	ImagePullPatience   time.Duration
	StateBytes          int64
	ExportBytes         int64
	NoGarbageCollection bool
}

const (
	kibibyte = 1 << 10
	mebibyte = 1 << 20
	// mostExports leaves room for the rest of a Secret, which has one mebibyte.
	mostExports = 960 * kibibyte
	// mostState is more than anybody should want to keep in Secrets.
	mostState = 100 * mebibyte
)

// Default returns the settings of an empty document.
func Default() Settings {
	return Settings{Strict: true, ImagePullPatience: time.Minute, StateBytes: 10 * mebibyte, ExportBytes: 512 * kibibyte}
}

// Load reads a document, YAML or JSON, strictly; empty for defaults. The problems are everything that is wrong with it, at once, but for
// a value of the wrong type, which is reported alone.
func Load(document []byte) (Settings, []sdk.Problem) {
	s := Default()
	if len(document) == 0 {
		return s, nil
	}
	var c ContainerConfiguration
	problems, ok := settingsfile.Decode(document, &c)
	if !ok {
		return s, problems
	}
	problems.CheckKind(c.TypeMeta, APIVersion, Kind)
	if c.Strict != nil {
		s.Strict = *c.Strict
	}
	s.Namespace, s.DefaultImage, s.ServiceAccounts = c.Namespace, c.DefaultImage, c.ServiceAccounts
	s.Init, s.Wait = c.InitContainer, c.WaitContainer
	if s.Wait.Image == "" {
		s.Wait.Image = s.Init.Image
	}
	if c.Resources != nil {
		s.Resources = *c.Resources
	}
	s.KeepPod, s.NoGarbageCollection = c.Debug.KeepPod, c.GarbageCollection.Disable
	if string(c.PodTemplate) != "null" {
		s.PodTemplate = c.PodTemplate
	}
	problems.Duration("imagePullPatience", c.ImagePullPatience, 0, time.Hour, &s.ImagePullPatience)
	problems.Amount("limits.state", c.Limits.State, kibibyte, mostState, &s.StateBytes)
	problems.Amount("limits.exports", c.Limits.Exports, kibibyte, mostExports, &s.ExportBytes)
	checkNames(&problems, &c)
	checkHelper(&problems, "initContainer", &c.InitContainer)
	checkHelper(&problems, "waitContainer", &c.WaitContainer)
	checkTemplate(&problems, c.PodTemplate)
	return s, problems
}

func checkNames(p *settingsfile.Problems, c *ContainerConfiguration) {
	if c.Namespace != "" && len(validation.IsDNS1123Label(c.Namespace)) > 0 {
		p.Add("namespace", "expected the name of a namespace, but found %q", c.Namespace)
	}
	for i, name := range c.ServiceAccounts {
		at := fmt.Sprintf("serviceAccounts[%d]", i)
		switch {
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			p.Add(at, "expected the name of a ServiceAccount, but found %q", name)
		case slices.Contains(c.ServiceAccounts[:i], name):
			p.Add(at, "%q is there twice", name)
		}
	}
}

func checkHelper(p *settingsfile.Problems, field string, h *HelperConfiguration) {
	policies := []corev1.PullPolicy{"", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	if !slices.Contains(policies, h.ImagePullPolicy) {
		p.Add(field+".imagePullPolicy", "expected one of Always, IfNotPresent and Never, but found %q", h.ImagePullPolicy)
	}
}

// checkTemplate reads what is merged into a Pod with the types of Kubernetes.
func checkTemplate(p *settingsfile.Problems, template json.RawMessage) {
	if len(template) == 0 {
		return
	}
	var pod struct {
		Metadata struct {
			Labels      map[string]string `json:"labels,omitempty"`
			Annotations map[string]string `json:"annotations,omitempty"`
		} `json:"metadata,omitempty"`
		Spec corev1.PodSpec `json:"spec,omitempty"`
	}
	problems, ok := settingsfile.Decode(template, &pod)
	if ok && len(problems) == 0 {
		if _, err := (run.Identity{}).Pod(&run.Template{Overlay: template}); err != nil {
			problems.Add("", "%v", err)
		}
	}
	for _, problem := range problems {
		if problem.Field == "" {
			p.Add("podTemplate", "%s", problem.Message)
			continue
		}
		p.Add("podTemplate."+problem.Field, "%s", problem.Message)
	}
}
