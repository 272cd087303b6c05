// Package providerconfig reads the provider configurations of deploy items in one or more versions, and reports all
// problems of one at once, each with the path of its field: unknown fields with a hint, values of a wrong type, and the
// findings of the deployer's own validation.
package providerconfig

import (
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
	"github.com/pergola-deploy/pergola/sdk/internal/document"
)

// Format describes the provider configurations of a deployer: documents D and their contents C.
type Format[D, C any] struct {
	Kind string
	// Versions are the accepted ones, the newest first. Their Go types have the fields apiVersion and kind, which each
	// document needs. One without them is read as the newest version, so that all its mistakes are reported.
	Versions []Version[D]
	// Undecodable returns the values which are too costly for the decoder; nil if there are no such values.
	Undecodable func(document []byte) []sdk.Problem
	// Rewrite brings a document with another written form into that of its Go type. written returns the path of a field
	// as it is written. Nil for documents with one form.
	Rewrite func(document []byte) (rewritten []byte, written func(path string) string)
	// Validate returns the content of a document, or all mistakes in its readable part. Mistakes caused by a value of a
	// wrong type need no care: they are left out.
	Validate func(*Document[D]) (*C, field.ErrorList)
}

// Version is a version of provider configurations.
type Version[D any] struct {
	apiVersion string
	// scheduled: its documents have the field continuousReconcile.
	scheduled bool
	// empty returns an empty document of the version, and a function for its form in the newest version.
	empty func() (into any, newest func() *D)
}

// Newest returns the version with the documents D.
func Newest[D any](apiVersion string) Version[D] {
	return Older(apiVersion, func(document *D) *D { return document })
}

// Older returns a version with the documents O. convert returns the form of one in the newest version.
func Older[O, D any](apiVersion string, convert func(*O) *D) Version[D] {
	return Version[D]{
		apiVersion: apiVersion, scheduled: document.HasField(reflect.TypeFor[O](), scheduleField),
		empty: func() (any, func() *D) {
			document := new(O)
			return document, func() *D { return convert(document) }
		},
	}
}

// Document is a decoded provider configuration.
type Document[D any] struct {
	// Config is its readable part in the newest version.
	Config *D
	// APIVersion is the version of the written document, and Written its JSON.
	APIVersion string
	Written    []byte
	// Unknown are the ignored fields, as texts for users.
	Unknown []string

	misread  misread
	problems field.ErrorList
	written  func(path string) string
}

// At returns the path of a field in the written document, for a Format with Rewrite.
func (d *Document[D]) At(path string) *field.Path {
	names := strings.Split(d.written(path), ".")
	return field.NewPath(names[0], names[1:]...)
}

// Read returns the content of the provider configuration of a deploy item. With strict, an unknown field is an error.
// The error names all mistakes; sdk.ProblemsOf lists them.
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

// ScheduleOf returns the schedule of an item, without a look at the rest of its provider configuration; nil for none.
// A version has schedules if its documents have the field continuousReconcile. An invalid schedule is an error and
// counts as none: the job has already failed with it. It is for continuousreconcile.FromSpec.
func (f Format[D, C]) ScheduleOf(item *landscaper.DeployItem) (*managedresource.ContinuousReconcile, error) {
	apiVersion, kind := requestWith(item.Spec.Config).ConfigGroupVersionKind()
	i := f.indexOf(apiVersion)
	if i < 0 || kind != f.Kind || !f.Versions[i].scheduled {
		return nil, nil //nolint:nilnil // no schedule: the version has none, or the job has failed
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
	d := &Document[D]{APIVersion: version.apiVersion, written: func(path string) string { return path }}
	if config != nil {
		d.Written = config.Raw
		if f.Undecodable != nil {
			if err := (misread{wrong: f.Undecodable(d.Written)}).Error(nil); err != nil {
				return nil, err
			}
		}
		if f.Rewrite != nil {
			config = &runtime.RawExtension{}
			config.Raw, d.written = f.Rewrite(d.Written)
		}
	}
	into, newest := version.empty()
	unread, wrong, err := requestWith(config).DecodeConfigPartly(into)
	if err != nil {
		return nil, err
	}
	for i, u := range unread {
		unread[i].Field = d.written(u.Field)
	}
	for i, p := range wrong {
		wrong[i].Field = d.written(p.Field)
	}
	d.Config, d.misread = newest(), misread{wrong: wrong}
	if strict {
		d.misread.unread = unread
	} else {
		d.Unknown = wire.Each(unread, sdk.UnreadField.Text)
	}
	d.problems = f.checkKind(config)
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
	i := f.indexOf(apiVersion)
	if i < 0 || kind != f.Kind {
		return Version[D]{}, sdk.ConfigurationError(sdk.ReasonConfigInvalid,
			"%s: expected kind %s of apiVersion %s, but found kind %q of apiVersion %q",
			whole, f.Kind, f.apiVersions(), kind, apiVersion)
	}
	return f.Versions[i], nil
}

// indexOf returns the index of a version; negative for an unknown one.
func (f Format[D, C]) indexOf(apiVersion string) int {
	return slices.IndexFunc(f.Versions, func(v Version[D]) bool { return v.apiVersion == apiVersion })
}

func (f Format[D, C]) apiVersions() string {
	var all []string
	for _, v := range f.Versions {
		all = append(all, v.apiVersion)
	}
	return strings.Join(all, " or ")
}

// checkKind reports a missing apiVersion or kind of a document, whatever its Go type does with them.
func (f Format[D, C]) checkKind(config *runtime.RawExtension) field.ErrorList {
	var meta metav1.TypeMeta
	if _, _, err := requestWith(config).DecodeConfigPartly(&meta); err != nil {
		return nil // the reader of the document reports it
	}
	var problems field.ErrorList
	if meta.APIVersion == "" {
		problems = append(problems, field.Required(field.NewPath("apiVersion"), "expected "+f.apiVersions()))
	}
	if meta.Kind == "" {
		problems = append(problems, field.Required(field.NewPath("kind"), "expected "+f.Kind))
	}
	return problems
}
