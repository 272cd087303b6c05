// Package helm says what the deployer needs of Helm, without the library. Package helm3 does it with version 3 of the
// library, package worker has it done in a process of its own. Everything in here can be passed between processes in
// gob.
package helm

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// Helm carries out one request after the other, or several at once.
type Helm interface {
	// Run carries a request out and returns when that is done or has failed. When ctx ends it leaves off as soon as it
	// can, with the release in a state from which the next request goes on. The error is an *Error, or that of ctx.
	Run(ctx context.Context, req *Request, observer Observer) (*Result, error)
}

// Action is what is to be done.
type Action string

// The actions.
const (
	// Render renders the chart and changes nothing. Without a kubeconfig, functions of templates that ask a cluster
	// find nothing.
	Render Action = "render"
	// Values combines the values with those of the chart. It needs no cluster.
	Values Action = "values"
	// Install makes the first revision of a release.
	Install Action = "install"
	// Upgrade makes another revision.
	Upgrade Action = "upgrade"
	// Uninstall removes a release with its history. A release that does not exist is removed.
	Uninstall Action = "uninstall"
)

// Request is one thing to do.
type Request struct {
	Action Action
	// Kubeconfig of the target; nil for an action without one.
	Kubeconfig []byte
	// Release names the release.
	Release Release
	// Chart is what to deploy. Not for Uninstall.
	Chart Chart
	// Values override those of the chart: a JSON object; nil for none.
	Values json.RawMessage
	// Revision is what templates are told, for Render: as of an installation if it is the first one, as of an upgrade
	// if it is a later one. Zero renders for no release, which templates see as an installation. Other actions tell
	// them the revision that they make.
	Revision int
	// CreateNamespace creates the release's namespace if it is missing.
	CreateNamespace bool
	// Former is the release that goes before the one is made that Render renders; the zero Release for none. With it
	// Render fails if the target would refuse the objects then.
	Former Former
	// Labels are put on the revision that is made.
	Labels map[string]string
	// RollbackLabels are put on the revision that a failed atomic upgrade is rolled back with. Without them it has
	// those of the revision that it goes back to.
	RollbackLabels map[string]string
	// Interrupted are revisions whose operations have ended without noting it. They are marked as failed before
	// anything else is done.
	Interrupted []int
	// Retry is a failed revision, the newest one but for the one that it was rolled back with, that is made again for the
	// same job: the new one has its objects and hooks, whatever the chart would be rendered to now, takes its place, and
	// runs no hook that has succeeded in it and was not undone. Zero for none.
	Retry int
	// Since is when the job began, for Uninstall: hooks that have succeeded since then are not run again. Zero for the
	// first attempt of a job.
	Since time.Time
	// Gone are objects that are not there and are not to be created: they have done their work, see
	// managedresource.ManagedResourceStatus. They stay part of the release. For Upgrade only.
	Gone []object.Key
	// Known are the UIDs of the objects that the deploy item has made. An object that names no release belongs to the
	// release only if it is one of them, and what failed operations have made is undone only then.
	Known []types.UID
	// OnlyKnown has Uninstall delete what is Known alone: the newest revision has failed, and may have taken over objects
	// that it has not made.
	OnlyKnown bool
	// Undeleted are objects that Uninstall does not delete, and Upgrade not either when the chart drops them: others that
	// are kept may be in them.
	Undeleted []object.Key
	// Ignored are fields of objects that belong to other clients once an object exists.
	Ignored ignore.Rules
	// MaxHistory is how many revisions are kept.
	MaxHistory int
	Options    Options
	// Limits of what the chart may use.
	Limits Limits
}

// Release names a release.
type Release struct {
	Namespace string
	Name      string
}

// Former is a release that another one takes the place of.
type Former struct {
	Release
	// Goes are the objects that go with it. What else names it is taken over.
	Goes []object.Key
}

// The annotations with which an object names its release.
const (
	nameAnnotation      = "meta.helm.sh/release-name"
	namespaceAnnotation = "meta.helm.sh/release-namespace"
)

// ReleaseOf returns the release that an object on a target names; the zero Release for none.
func ReleaseOf(o metav1.Object) Release {
	annotations := o.GetAnnotations()
	return Release{Namespace: annotations[namespaceAnnotation], Name: annotations[nameAnnotation]}
}

// Annotations returns the annotations of the objects of the release.
func (r Release) Annotations() map[string]string {
	return map[string]string{nameAnnotation: r.Name, namespaceAnnotation: r.Namespace}
}

// Chart is a packed chart in a file.
type Chart struct {
	// Path of the archive.
	Path string
}

// Options are those of Helm's commands of the same names.
type Options struct {
	Atomic bool
	// DisableHooks has no hooks run; for Uninstall only.
	DisableHooks         bool
	Force                bool
	SkipSchemaValidation bool
	TakeOwnership        bool
	Wait                 bool
	// Timeout bounds each wait of Helm. Positive.
	Timeout time.Duration
	// Until is when waits end at the latest, but for those of a rollback, or of the removal of what could not be
	// installed: they need time of their own. Zero for no such time.
	Until time.Time
}

// Limits are what a chart may use. All are positive.
type Limits struct {
	// UnpackedBytes bounds the files of the chart together, and Files their number.
	UnpackedBytes int64
	Files         int
	// Depth bounds how deep sub-charts are nested.
	Depth int
	// RenderedBytes bounds what the templates are rendered to, together.
	RenderedBytes int64
	// RenderTime is how long it may take until the chart is rendered, with what is asked of the target for it.
	RenderTime time.Duration
	// MemoryBytes bounds what the process uses that carries the request out.
	MemoryBytes int64
}

// Observer hears what happens during a request. Its methods are called one after the other.
type Observer interface {
	// Changing is called before an installation creates the objects of the folder crds, which comes before Rendered.
	// After an error nothing is created. Not called for a chart without that folder.
	Changing(ctx context.Context) error
	// Rendered gets the objects of the chart, without those of hooks and of the folder crds, before any of them is
	// created, and returns those that are to be created instead, of the same names. After an error nothing is created.
	// Not called for Values and Uninstall.
	Rendered(ctx context.Context, objects []Object) ([]Object, error)
	// Found is called with objects that exist and that the release has not made, before any of those is changed that are
	// to be taken over. After an error nothing is changed any more.
	Found(ctx context.Context, found []Found) error
	// Progress tells what is being done: step is a short CamelCase name, message a sentence.
	Progress(step, message string)
	// Warning is for users: reason is one of the Reasons, message a sentence. It holds no values.
	Warning(reason, message string)
	// Log is a line of Helm's own log. It holds no values.
	Log(line string)
}

// The reasons of warnings.
const (
	// ReasonUnreadable: a revision is stored, but cannot be read.
	ReasonUnreadable = "ReleaseUnreadable"
	// ReasonHookRepeated: a hook that an earlier attempt of the same job has begun is run again.
	ReasonHookRepeated = "HookRepeated"
	// ReasonChart: Helm warns about the chart or its values.
	ReasonChart = "ChartWarning"
	// ReasonTarget: the API server of the target warns about an object.
	ReasonTarget = "TargetWarning"
)

// Object is an object of a chart.
type Object struct {
	// Source is the template that it comes from, such as "shop/templates/service.yaml".
	Source string
	// JSON is the object.
	JSON json.RawMessage
}

// Found is an object on the target that the release has not made, with what becomes of it.
type Found struct {
	Key  object.Key
	Fate Fate
	// Of is the release that the object names; the zero Release for none.
	Of Release
}

// Fate is what an operation does about an object that it has not made.
type Fate string

// The fates.
const (
	// Left: the object is not the release's, and is neither changed nor deleted.
	Left Fate = "Left"
	// TakenOver: the object becomes one of the release.
	TakenOver Fate = "TakenOver"
	// NotUndone: an operation that has failed is undone, but the object was there before it.
	NotUndone Fate = "NotUndone"
)

// Hook is an object of a chart that Helm creates at a certain point of an operation.
type Hook struct {
	Object
	// Events are those points, such as "pre-install".
	Events []string
}

// Result is what came of a request.
type Result struct {
	// Revision that was made, or for Uninstall the last one there was; zero for Render and Values, and if there was
	// none.
	Revision int
	// Chart says what the chart is called. Not for Uninstall.
	Chart Metadata
	// Definitions are the objects of the folders crds, Objects those of the templates that are no hooks, and Hooks
	// those that are. Not for Values and Uninstall.
	Definitions []Object
	Objects     []Object
	Hooks       []Hook
	// Ignored are the templates that render something that is no object, which is left out. For Render without a
	// release only: with one it is an error, as Helm has it.
	Ignored []string
	// Values are those that the chart is rendered with, its own included: a JSON object. For Values only.
	Values json.RawMessage
	// Kept are the objects that Uninstall has left where they are, because they say so, as Helm describes them.
	Kept string
}

// Metadata is what a chart says of itself.
type Metadata struct {
	Name       string
	Version    string
	AppVersion string
}

// Kind says what an error is about.
type Kind string

// The kinds of errors.
const (
	// ChartInvalid: the chart cannot be used as it is.
	ChartInvalid Kind = "ChartInvalid"
	// ValuesInvalid: the values do not fit the chart.
	ValuesInvalid Kind = "ValuesInvalid"
	// RenderFailed: a template cannot be rendered, or does not render an object.
	RenderFailed Kind = "RenderFailed"
	// LimitExceeded: the chart needs more than Limits allow.
	LimitExceeded Kind = "LimitExceeded"
	// Rejected: the API server, or Helm, finds an object wrong, and would again.
	Rejected Kind = "Rejected"
	// OwnedByOthers: an object exists and does not belong to the release.
	OwnedByOthers Kind = "OwnedByOthers"
	// ChartHookFailed: a hook of the chart has failed.
	ChartHookFailed Kind = "ChartHookFailed"
	// Pending: another operation on the release is in progress.
	Pending Kind = "Pending"
	// TimedOut: Helm has waited for too long.
	TimedOut Kind = "TimedOut"
	// Unauthorized: the target does not know the credentials.
	Unauthorized Kind = "Unauthorized"
	// Unreachable: the target does not answer, or asks to be left alone.
	Unreachable Kind = "TargetUnreachable"
	// Refused: the Observer has refused the objects. Err of the caller says why.
	Refused Kind = "Refused"
	// ClusterFailed: anything else that the target did not do, which it may do the next time.
	ClusterFailed Kind = "ClusterFailed"
	// Crashed: the process that carried the request out has ended for a reason of its own.
	Crashed Kind = "Crashed"
)

// Error is why a request has failed. It holds no values.
type Error struct {
	Kind Kind
	// Message is for people; it names the chart or the object.
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }
