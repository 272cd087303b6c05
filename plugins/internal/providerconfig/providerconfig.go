// Package providerconfig reads the provider configurations of deploy items for all deployers: their versions and forms,
// unknown fields, values of a wrong type, and the shared fields. A deployer's own package adds its own fields.
package providerconfig

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

// ReasonInvalid is the reason of the error about an invalid provider configuration. It is Landscaper's.
const ReasonInvalid = "ValidateProviderConfiguration"

// Format describes the provider configurations of a deployer: documents D and their contents C.
type Format[D, C any] struct {
	Kind string
	// Versions are the accepted ones, the newest first. Only the newest one has schedules. A document without apiVersion
	// and kind is read as the newest one, so that all its mistakes are reported.
	Versions []Version[D]
	// Undecodable returns the values which are too costly for the decoder; nil if there are no such values.
	Undecodable func(document []byte) []sdk.Problem
	// Validate returns the content of a document, or all mistakes in its readable part.
	Validate func(*Document[D]) (*C, field.ErrorList)
}

// Version is a version of provider configurations.
type Version[D any] struct {
	apiVersion string
	// empty returns an empty document of the version, and a function for its form in the newest version.
	empty func() (into any, newest func() *D)
}

// Newest returns the version with the documents D.
func Newest[D any](apiVersion string) Version[D] {
	return Older(apiVersion, func(document *D) *D { return document })
}

// Older returns a version with the documents O.
func Older[O, D any](apiVersion string, convert func(*O) *D) Version[D] {
	return Version[D]{apiVersion: apiVersion, empty: func() (any, func() *D) {
		document := new(O)
		return document, func() *D { return convert(document) }
	}}
}

// Document is a decoded provider configuration.
type Document[D any] struct {
	// Config is its readable part in the newest version.
	Config *D
	// APIVersion is the version of the written document, and Written its JSON.
	APIVersion string
	Written    []byte
	// Exports is the place of the list of exports in the written document.
	Exports *field.Path

	// Unknown are the ignored fields, as texts for users.
	Unknown []string

	misread  misread
	problems field.ErrorList
}

// Read returns the content of the provider configuration of a deploy item. With strict, an unknown field is an error.
// The error names all mistakes.
func (f Format[D, C]) Read(req *sdk.Request, strict bool) (*C, error) {
	document, err := f.decode(req.DeployItem.Spec.Config, strict)
	if err != nil {
		return nil, err
	}
	content, problems := f.Validate(document)
	if err := document.misread.Error(append(document.problems, problems...)); err != nil {
		return nil, err
	}
	return content, nil
}

// Problems returns all mistakes in a provider configuration, for sdk.Validator.
func (f Format[D, C]) Problems(config []byte, strict bool) ([]sdk.Problem, error) {
	document, err := f.decode(&runtime.RawExtension{Raw: config}, strict)
	if err != nil {
		if _, ok := errors.AsType[*sdk.Error](err); ok {
			return []sdk.Problem{{Field: whole, Message: strings.TrimPrefix(err.Error(), whole+": ")}}, nil
		}
		return nil, err
	}
	_, problems := f.Validate(document)
	return document.misread.With(append(document.problems, problems...)), nil
}

// ScheduleOf returns the schedule of an item, without a look at the rest of its provider configuration; nil for none.
// An invalid schedule is an error and counts as none: the job has already failed with it.
func (f Format[D, C]) ScheduleOf(item *landscaper.DeployItem) (*managedresource.ContinuousReconcile, error) {
	apiVersion, kind := requestWith(item.Spec.Config).ConfigGroupVersionKind()
	if apiVersion != f.Versions[0].apiVersion || kind != f.Kind {
		return nil, nil //nolint:nilnil // no schedule: an older version has none, and the job has failed with others
	}
	schedule, err := continuousreconcile.ReadSpec(item)
	if err != nil || schedule == nil {
		return nil, err
	}
	_, err = continuousreconcile.Parse(schedule.Every, schedule.Cron)
	return schedule, err
}

func (f Format[D, C]) decode(config *runtime.RawExtension, strict bool) (*Document[D], error) {
	version, err := f.versionOf(config)
	if err != nil {
		return nil, err
	}
	d := &Document[D]{APIVersion: version.apiVersion, Exports: field.NewPath("exports", "exports")}
	listed := false
	if config != nil {
		d.Written = config.Raw
		if f.Undecodable != nil {
			if err := (misread{wrong: f.Undecodable(d.Written)}).Error(nil); err != nil {
				return nil, err
			}
		}
		config = &runtime.RawExtension{}
		config.Raw, listed = wrapExports(d.Written)
	}
	into, newest := version.empty()
	unknown, wrong, err := requestWith(config).DecodeConfigPartly(into)
	if err != nil {
		return nil, err
	}
	if listed {
		d.Exports = field.NewPath("exports")
		unwrapExports(unknown, wrong)
	}
	d.Config, d.misread = newest(), misread{wrong: wrong}
	if strict {
		d.misread.unknown = unknown
	} else {
		d.Unknown = unknown
	}
	d.problems = f.checkKind(into)
	return d, nil
}

func requestWith(config *runtime.RawExtension) *sdk.Request {
	item := &landscaper.DeployItem{}
	item.Spec.Config = config
	return &sdk.Request{DeployItem: item}
}

// versionOf returns the version of a provider configuration. The error names the accepted ones.
func (f Format[D, C]) versionOf(config *runtime.RawExtension) (Version[D], error) {
	apiVersion, kind := requestWith(config).ConfigGroupVersionKind()
	if apiVersion == "" && kind == "" {
		return f.Versions[0], nil
	}
	i := slices.IndexFunc(f.Versions, func(v Version[D]) bool { return v.apiVersion == apiVersion })
	if i < 0 || kind != f.Kind {
		return Version[D]{}, sdk.ConfigurationError(sdk.ReasonConfigInvalid,
			"%s: expected kind %s of apiVersion %s, but found kind %q of apiVersion %q",
			whole, f.Kind, f.apiVersions(), kind, apiVersion)
	}
	return f.Versions[i], nil
}

func (f Format[D, C]) apiVersions() string {
	var all []string
	for _, v := range f.Versions {
		all = append(all, v.apiVersion)
	}
	return strings.Join(all, " or ")
}

// checkKind reports a missing apiVersion or kind.
func (f Format[D, C]) checkKind(document any) field.ErrorList {
	meta, ok := document.(schema.ObjectKind)
	if !ok {
		return nil
	}
	var problems field.ErrorList
	apiVersion, kind := meta.GroupVersionKind().ToAPIVersionAndKind()
	if apiVersion == "" {
		problems = append(problems, field.Required(field.NewPath("apiVersion"), "expected "+f.apiVersions()))
	}
	if kind == "" {
		problems = append(problems, field.Required(field.NewPath("kind"), "expected "+f.Kind))
	}
	return problems
}
