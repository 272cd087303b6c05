package inspect

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Summary is an item at a glance.
type Summary struct {
	Namespace string                   `json:"namespace"`
	Name      string                   `json:"name"`
	Type      v1alpha1.DeployItemType  `json:"type"`
	Target    string                   `json:"target,omitempty"`
	Phase     v1alpha1.DeployItemPhase `json:"phase,omitempty"`
	Job       Job                      `json:"job"`
	// Deployer is who has picked up the last job; nil if nobody ever has.
	Deployer *v1alpha1.DeployerInformation `json:"deployer,omitempty"`
	// Message is what a job under way waits for, why the last one has failed, or what else is to be known; empty if all is well.
	Message string `json:"message,omitempty"`
	// Deleting: the item is to be deleted.
	Deleting bool        `json:"deleting,omitempty"`
	Created  metav1.Time `json:"created"`
}

// Summarize sums up an item.
func Summarize(item *v1alpha1.DeployItem) Summary {
	s := Summary{
		Namespace: item.Namespace, Name: item.Name, Type: item.Spec.Type, Phase: item.Status.Phase,
		Job: JobOf(item), Deleting: item.DeletionTimestamp != nil, Created: item.CreationTimestamp,
	}
	if item.Spec.Target != nil {
		s.Target = item.Spec.Target.Name
	}
	if deployer := item.Status.Deployer; deployer != (v1alpha1.DeployerInformation{}) {
		s.Deployer = &deployer
	}
	s.Message = messageOf(item, s.Job.State)
	return s
}

// messageOf is what is most worth to be known about an item.
func messageOf(item *v1alpha1.DeployItem, state JobState) string {
	status := &item.Status
	if unserved := contract.Unserved(item); unserved != "" {
		return unserved
	}
	ready := conditionOf(status, contract.ConditionReady)
	switch state {
	case JobNone:
		return "there was no job yet"
	case JobSet:
		return "nobody has picked up the job yet"
	case JobQueued, JobUnderWay:
		if waitingFor := contract.WaitingFor(item); waitingFor != "" || status.LastError == nil {
			return waitingFor
		}
		return errorText(status.LastError)
	default:
	}
	switch {
	case status.Phase != v1alpha1.DeployItemPhaseSucceeded && status.LastError != nil:
		return errorText(status.LastError)
	case status.Phase == v1alpha1.DeployItemPhaseSucceeded && ready != nil && ready.Status != v1alpha1.ConditionTrue:
		return ready.Message
	default:
		return ""
	}
}

// errorText writes an error as a line. Its codes are shown elsewhere.
func errorText(e *v1alpha1.Error) string {
	return cmp.Or(e.Reason, e.Operation) + ": " + e.Message
}

// ShortType is a type without the group that nearly all have.
func ShortType(of v1alpha1.DeployItemType) string {
	return strings.TrimPrefix(string(of), v1alpha1.GroupName+"/")
}

// FullType is the type that somebody means who may have left out that group.
func FullType(text string) v1alpha1.DeployItemType {
	if strings.Contains(text, "/") {
		return v1alpha1.DeployItemType(text)
	}
	return v1alpha1.DeployItemType(v1alpha1.GroupName + "/" + text)
}

// Columns are those of a list of items.
type Columns struct {
	// Namespace: the items are of several namespaces.
	Namespace bool
	// Wide has more columns, and nothing is cut.
	Wide bool
}

// maxMessage is how many characters of a message a list shows.
const maxMessage = 60

// Header returns the names of the columns.
func (c Columns) Header() []string {
	header := []string{"NAME", "TYPE", "TARGET", "PHASE", "JOB", "AGE", "WAITING FOR / LAST ERROR"}
	if c.Wide {
		header = []string{"NAME", "TYPE", "TARGET", "PHASE", "JOB", "JOB ID", "DEPLOYER", "AGE", "WAITING FOR / LAST ERROR"}
	}
	if c.Namespace {
		header = append([]string{"NAMESPACE"}, header...)
	}
	return header
}

// Cells returns the cells of an item.
func (c Columns) Cells(s Summary, now time.Time) []string {
	age, job := Ago(s.Created.Time, now), string(s.Job.State)
	cells := []string{s.Name, ShortType(s.Type), s.Target, phaseText(s), job, age, short(s.Message)}
	if c.Wide {
		cells = []string{s.Name, string(s.Type), s.Target, phaseText(s), job, s.Job.ID, deployerText(s.Deployer), age, s.Message}
	}
	if c.Namespace {
		cells = append([]string{s.Namespace}, cells...)
	}
	return cells
}

// Table returns a list of items.
func (c Columns) Table(items []Summary, now time.Time) string {
	rows := make([]terminal.Row, 0, len(items))
	for _, item := range items {
		rows = append(rows, terminal.Row{Cells: c.Cells(item, now)})
	}
	return terminal.Table(c.Header(), rows)
}

// phaseText is the phase, and what it does not tell: that the item is to be deleted.
func phaseText(s Summary) string {
	if s.Deleting && !s.Phase.IsDeletion() {
		return strings.TrimSpace(string(s.Phase) + " (to be deleted)")
	}
	return string(s.Phase)
}

// deployerText is such as "helm v1.2 of pergola-0".
func deployerText(d *v1alpha1.DeployerInformation) string {
	if d == nil {
		return ""
	}
	text := strings.TrimSpace(d.Name + " " + d.Version)
	if d.Identity != "" {
		text += " of " + d.Identity
	}
	return text
}

// short cuts a text that is too long for a list.
func short(text string) string {
	text, _, cut := strings.Cut(text, "\n")
	if utf8.RuneCountInString(text) > maxMessage {
		return string([]rune(text)[:maxMessage-1]) + "…"
	}
	if cut {
		return text + " …"
	}
	return text
}

// Ago is how long ago something was, in few characters; empty for no time.
func Ago(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, now.Sub(at)))
}
