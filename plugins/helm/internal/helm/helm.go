// Package helm is the deployer's interface to Helm, without the library. Package helm3 implements it with version 3 of
// the library, and package worker runs it in processes. All of it can be passed between processes in gob.
package helm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// Helm carries out one request after the other, or several at once.
type Helm interface {
	// Run carries a request out and returns after its success or failure. When ctx ends it stops as soon as it can, with
	// the release ready for the next request. The error is an *Error, or that of ctx.
	Run(ctx context.Context, req *Request, observer Observer) (*Result, error)
}

// Action is the kind of a request.
type Action string

// The actions.
const (
	// Render renders the chart and changes nothing. Without a kubeconfig, lookups of templates find nothing.
	Render Action = "render"
	// Values combines the values with those of the chart. It needs no cluster.
	Values Action = "values"
	// Index looks a chart up in the index of a chart repository. It needs neither a release nor a cluster.
	Index Action = "index"
	// Install makes the first revision of a release.
	Install Action = "install"
	// Upgrade makes another revision.
	Upgrade Action = "upgrade"
	// Uninstall removes a release with its history. It succeeds without a release.
	Uninstall Action = "uninstall"
)

// Request is one request.
type Request struct {
	Action Action
	// Kubeconfig of the target; nil for an action without one.
	Kubeconfig []byte
	// Release names the release.
	Release Release
	// Chart is the chart to deploy; for Index the index. Not for Uninstall.
	Chart Chart
	// Wanted is the chart to look up, for Index.
	Wanted Wanted
	// Values override those of the chart: a JSON object; nil for none.
	Values json.RawMessage
	// Revision is the revision seen by templates, for Render: the first one is an installation, later ones are upgrades.
	// Zero renders for no release, as an installation. With other actions templates see the new revision.
	Revision int
	// CreateNamespace creates the release's namespace if it is missing.
	CreateNamespace bool
	// Former is the release to uninstall before the one of Render is installed; the zero Release for none. With it Render
	// fails if the target would refuse the objects then.
	Former Former
	// Labels are put on the new revision.
	Labels map[string]string
	// RollbackLabels are put on the revision of a rollback after a failed atomic upgrade. Without them it has those of
	// the restored revision.
	RollbackLabels map[string]string
	// Interrupted are revisions left in progress by ended operations. They are marked as failed before anything else.
	Interrupted []int
	// Retry is a failed revision to repeat for the same job: the newest one apart from its rollback. The new revision has
	// its objects and hooks, whatever the chart would render now, takes its place, and leaves out its succeeded hooks
	// unless they were undone. Zero for none.
	Retry int
	// Since is the beginning of the job, for Uninstall: hooks with a success since then are not run again. Zero for the
	// first attempt of a job.
	Since time.Time
	// Gone are objects not there and not to be created: they are completed, see managedresource.ManagedResourceStatus.
	// They stay part of the release. For Upgrade only.
	Gone []object.Key
	// Known are the UIDs of the objects created by the item. An object without the name of a release belongs to the
	// release only if it is one of them, and the undoing of failed operations deletes only those.
	Known []types.UID
	// OnlyKnown has Uninstall delete Known objects alone: the newest revision has failed, and may have taken over others.
	OnlyKnown bool
	// Undeleted are objects not deleted by Uninstall, nor by Upgrade when the chart drops them: kept objects may be in
	// them.
	Undeleted []object.Key
	// Ignored are fields owned by other clients once an object exists.
	Ignored ignore.Rules
	// MaxHistory bounds the kept revisions.
	MaxHistory int
	Options    Options
	// Limits bound the resources of the chart.
	Limits Limits
}

// Release names a release.
type Release struct {
	Namespace string
	Name      string
}

// String returns the namespace and the name, for messages.
func (r Release) String() string { return r.Namespace + "/" + r.Name }

// Former is a release about to be replaced by another one.
type Former struct {
	Release
	// Goes are the objects deleted with it. Its other objects are taken over.
	Goes []object.Key
}

// AdviceOnOwner is the advice about an object in the way of an operation. Another takeOwnership is about the release.
const AdviceOnOwner = "delete it, or set takeOwnership in helmDeploymentConfig.install and .upgrade to take it over"

// Owner is the owner named by a live object; the zero Owner for none.
type Owner struct {
	// Item is the label of a deploy item that has applied the object without a release. It counts more than the
	// annotations of a release, which stay when such an item takes an object over.
	Item    string
	Release Release
}

// OwnerOf returns the owner of a live object.
func OwnerOf(o metav1.Object) Owner {
	if item, labelled := o.GetLabels()[owner.Label]; labelled {
		return Owner{Item: item}
	}
	annotations := o.GetAnnotations()
	return Owner{Release: Release{Namespace: annotations[owner.ReleaseNamespace], Name: annotations[owner.ReleaseName]}}
}

// String describes the owner, for messages.
func (o Owner) String() string {
	switch {
	case o.Item != "":
		return fmt.Sprintf("the deploy item %q", o.Item)
	case o.Release != Release{}:
		return "release " + o.Release.String()
	default:
		return "no release"
	}
}

// Owner returns the owner of the objects of the release.
func (r Release) Owner() Owner { return Owner{Release: r} }

// Annotations returns the annotations of the objects of the release.
func (r Release) Annotations() map[string]string {
	return map[string]string{owner.ReleaseName: r.Name, owner.ReleaseNamespace: r.Namespace}
}

// Chart is a packed chart, or an index, in a file.
type Chart struct {
	// Path of the file.
	Path string
}

// Options are those of Helm's commands of the same names.
type Options struct {
	Atomic bool
	// DisableHooks runs no hooks; for Uninstall only.
	DisableHooks         bool
	Force                bool
	SkipSchemaValidation bool
	TakeOwnership        bool
	Wait                 bool
	// Timeout bounds each wait of Helm. Positive.
	Timeout time.Duration
	// Until is the latest end of waits, except for those of a rollback, or of the removal after a failed installation:
	// they need time of their own. Zero for no such time.
	Until time.Time
}

// Limits bound the resources of a chart. All are positive.
type Limits struct {
	// UnpackedBytes bounds the files of the chart together, and Files their number.
	UnpackedBytes int64
	Files         int
	// Depth bounds the nesting of sub-charts.
	Depth int
	// RenderedBytes bounds the rendered templates, together.
	RenderedBytes int64
	// RenderTime bounds the time until the chart is rendered, with its requests to the target.
	RenderTime time.Duration
	// MemoryBytes bounds the memory of the process.
	MemoryBytes int64
}

// Observer receives the events of a request. Changing, Rendered and Found are called one after the other; the others at
// any time, by a Pool of package worker between them. None is called after the end of the request.
type Observer interface {
	// Changing is called before the first change of the target: before Rendered in an installation with a folder crds,
	// after it in others. After an error nothing is changed.
	Changing(ctx context.Context) error
	// Rendered gets the objects of the chart, without those of hooks and of the folder crds, before any of them is
	// created, and returns the objects to create instead, of the same names. After an error nothing is created. Not
	// called for Values, Index and Uninstall.
	Rendered(ctx context.Context, objects []Object) ([]Object, error)
	// Found is called with existing objects not created by the release, before any of them is changed in a takeover.
	// After an error there are no further changes.
	Found(ctx context.Context, found []Found) error
	// Progress reports a step: its short CamelCase name, and a sentence.
	Progress(step, message string)
	// Warning is for users: reason is one of the Reasons, message a sentence. It holds no values.
	Warning(reason, message string)
	// Log is a line of Helm's own log. It holds no values.
	Log(line string)
}

// The reasons of warnings.
const (
	// ReasonUnreadable: a stored revision cannot be read.
	ReasonUnreadable = "ReleaseUnreadable"
	// ReasonHookRepeated: a hook begun by an earlier attempt of the same job is run again.
	ReasonHookRepeated = "HookRepeated"
	// ReasonChart: Helm warns about the chart or its values.
	ReasonChart = "ChartWarning"
	// ReasonTarget: the API server of the target warns about an object.
	ReasonTarget = "TargetWarning"
)

// Object is an object of a chart.
type Object struct {
	// Source is its template, such as "shop/templates/service.yaml".
	Source string
	// JSON is the object.
	JSON json.RawMessage
}

// Found is a live object not created by the release, with its fate.
type Found struct {
	Key  object.Key
	Fate Fate
	Of   Owner
}

// Fate is the effect of an operation on an object created by others.
type Fate string

// The fates.
const (
	// Left: the object is not the release's, and is neither changed nor deleted.
	Left Fate = "Left"
	// TakenOver: the object becomes one of the release.
	TakenOver Fate = "TakenOver"
	// NotUndone: a failed operation is undone, but the object existed before it.
	NotUndone Fate = "NotUndone"
)

// Hook is an object of a chart, created by Helm at a certain point of an operation.
type Hook struct {
	Object
	// Events are those points, such as "pre-install".
	Events []string
}

// Result is the result of a request.
type Result struct {
	// Revision is the new one, or for Uninstall the last one; zero for Render, Values and Index, and for Uninstall without
	// a release.
	Revision int
	// Chart is the chart's metadata. Not for Index and Uninstall.
	Chart Metadata
	// Definitions are the objects of the folders crds, Objects those of the templates without hooks, and Hooks those of
	// hooks. Not for Values, Index and Uninstall.
	Definitions []Object
	Objects     []Object
	Hooks       []Hook
	// Ignored are templates with text left out because it is no object. For Render without a release only: with one it is
	// an error, as in Helm.
	Ignored []string
	// Values are the values of the rendering, with the chart's own: a JSON object. For Values only.
	Values json.RawMessage
	// Listed is the chart in the index, for Index.
	Listed *Listed
	// Kept are the objects left by Uninstall because of their own policy, in Helm's words.
	Kept string
}

// Metadata is the name and the versions of a chart.
type Metadata struct {
	Name       string
	Version    string
	AppVersion string
}

// Kind is the kind of an error.
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
	// Refused: the Observer has refused the objects; its own error has the reason.
	Refused Kind = "Refused"
	// ClusterFailed: any other failure of the target, possibly gone the next time.
	ClusterFailed Kind = "ClusterFailed"
	// Crashed: the process of the request has ended for a reason of its own.
	Crashed Kind = "Crashed"
)

// Error is the failure of a request. It holds no values.
type Error struct {
	Kind Kind
	// Message is a text for users; it names the chart or the object.
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }
