package config

import (
	"cmp"
	_ "embed" // for SettingsSchema
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/pluginconfig"
)

const (
	settingsAPIVersion = "container.pergola.dev/v1alpha1"
	settingsKind       = "ContainerConfiguration"
)

// SettingsSchema is the JSON schema of the configuration of the plugin.
//
//go:embed settings.schema.json
var SettingsSchema []byte

// Settings are the configuration of the plugin, written by an operator. Their field in the HostConfiguration is
// plugins.container.config.
type Settings struct {
	metav1.TypeMeta `json:",inline"`

	// Strict makes unknown fields of a provider configuration fail its job. With false they are ignored, as in
	// Landscaper, and named in a warning event. Defaults to true.
	Strict bool `json:"strict,omitempty"`
	// Namespace of the host cluster for Pods and everything belonging to them. It should contain nothing else. Defaults
	// to the namespace of the ServiceAccount granted in the HostConfiguration.
	Namespace string `json:"namespace,omitempty"`
	// DefaultImage is run for provider configurations without an image. There is none by default.
	DefaultImage string `json:"defaultImage,omitempty"`
	// InitContainer and WaitContainer run Pergola's helper beside the image. WaitContainer defaults to the image of
	// InitContainer.
	InitContainer pod.Helper `json:"initContainer,omitempty"`
	WaitContainer pod.Helper `json:"waitContainer,omitempty"`
	// ServiceAccounts are the allowed names in a provider configuration for a Pod on the host cluster. None by default.
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
	// Resources are the resources of containers with none in their provider configuration.
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// PodTemplate is merged into each Pod, as by `kubectl patch`: metadata.labels, metadata.annotations and spec.
	PodTemplate json.RawMessage `json:"podTemplate,omitempty"`
	// Registries have the settings for unusual access to registries of components.
	Registries []fetch.Registry `json:"registries,omitempty"`
	// Debug has the settings for the search for errors.
	Debug Debug `json:"debug,omitempty"`
	// ImagePullPatience is the time for failing pulls of an image before the job fails. Defaults to 1m.
	ImagePullPatience pluginconfig.Duration `json:"imagePullPatience,omitempty"`
	// Limits bounds the results of a container.
	Limits Limits `json:"limits,omitempty"`
	// GarbageCollection removes the objects of deleted items.
	GarbageCollection GarbageCollection `json:"garbageCollection,omitempty"`
}

// Debug has the settings for the search for errors.
type Debug struct {
	// KeepPod keeps an ended Pod until the next one of its item, or until the deletion of the item.
	KeepPod bool `json:"keepPod,omitempty"`
}

// Limits bounds the results of a container.
type Limits struct {
	// State is the greatest size of the packed state. Defaults to 10Mi.
	State pluginconfig.Amount `json:"state,omitempty"`
	// Exports is the greatest size of the file with the exports. Defaults to 512Ki.
	Exports pluginconfig.Amount `json:"exports,omitempty"`
}

// GarbageCollection removes the objects of deleted items.
type GarbageCollection struct {
	// Disable keeps them.
	Disable bool `json:"disable,omitempty"`
}

// DefaultSettings returns the settings of an empty document.
func DefaultSettings() Settings {
	return Settings{
		TypeMeta: metav1.TypeMeta{APIVersion: settingsAPIVersion, Kind: settingsKind},
		Strict:   true, ImagePullPatience: pluginconfig.DurationOf("1m"),
		Limits: Limits{State: pluginconfig.AmountOf("10Mi"), Exports: pluginconfig.AmountOf("512Ki")},
	}
}

// LoadSettings reads a document, YAML or JSON, strictly; empty for defaults. It returns all problems at once.
func LoadSettings(document []byte) (Settings, []sdk.Problem) {
	s := DefaultSettings()
	problems := pluginconfig.Load(document, &s, &s.TypeMeta, s.check)
	s.WaitContainer.Image = cmp.Or(s.WaitContainer.Image, s.InitContainer.Image)
	if string(s.PodTemplate) == "null" {
		s.PodTemplate = nil
	}
	return s, problems
}

func (s *Settings) check(p *pluginconfig.Problems) {
	amount := pluginconfig.AmountOf
	p.Duration("imagePullPatience", s.ImagePullPatience, 0, time.Hour)
	// The most is more than any sensible state in Secrets.
	p.Amount("limits.state", s.Limits.State, amount("1Ki"), amount("100Mi"))
	// The most leaves room for the rest of a Secret of at most one mebibyte.
	p.Amount("limits.exports", s.Limits.Exports, amount("1Ki"), amount("960Ki"))
	if s.Namespace != "" && len(validation.IsDNS1123Label(s.Namespace)) > 0 {
		p.Add("namespace", "expected the name of a namespace, but found %q", s.Namespace)
	}
	for i, name := range s.ServiceAccounts {
		at := fmt.Sprintf("serviceAccounts[%d]", i)
		switch {
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			p.Add(at, "expected the name of a ServiceAccount, but found %q", name)
		case slices.Contains(s.ServiceAccounts[:i], name):
			p.Add(at, "%q is there twice", name)
		}
	}
	checkPullPolicy(p, "initContainer", s.InitContainer.ImagePullPolicy)
	checkPullPolicy(p, "waitContainer", s.WaitContainer.ImagePullPolicy)
	checkTemplate(p, s.PodTemplate)
	fetch.CheckRegistries(p, "registries", s.Registries)
}

func checkPullPolicy(p *pluginconfig.Problems, field string, policy corev1.PullPolicy) {
	if !slices.Contains([]corev1.PullPolicy{"", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}, policy) {
		p.Add(field+".imagePullPolicy", "expected one of Always, IfNotPresent and Never, but found %q", policy)
	}
}

// checkTemplate decodes a podTemplate with the types of Kubernetes.
func checkTemplate(p *pluginconfig.Problems, template json.RawMessage) {
	if len(template) == 0 || string(template) == "null" {
		return
	}
	var document struct {
		Metadata struct {
			Labels      map[string]string `json:"labels,omitempty"`
			Annotations map[string]string `json:"annotations,omitempty"`
		} `json:"metadata,omitempty"`
		Spec corev1.PodSpec `json:"spec,omitempty"`
	}
	problems := pluginconfig.Check(template, &document, func(p *pluginconfig.Problems) {
		_, err := (pod.Identity{}).Pod(&pod.Template{Overlay: template})
		if err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) { // the decoder has reported it
			p.Add("", "%v", err)
		}
	})
	for _, problem := range problems {
		field := "podTemplate"
		if problem.Field != "" {
			field += "." + problem.Field
		}
		p.Add(field, "%s", problem.Message)
	}
}
