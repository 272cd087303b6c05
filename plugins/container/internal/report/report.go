// Package report has the texts and values of a run for users: the state of its Pod, its failure, the last words of its
// container without the container's input, and its exports.
package report

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/internal/boundedyaml"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/redact"
)

const (
	// ReasonExports is the reason of the error about unreadable or lost exports.
	ReasonExports = "ExportsInvalid"

	// maxLines and maxBytes bound the shown words of a container.
	maxLines = 10
	maxBytes = 1500
)

// PodStatus returns the state of a Pod and its containers. last is the previous one, or nil.
func PodStatus(last *v1alpha1.PodStatus, p *corev1.Pod, hidden *redact.Redactor) *v1alpha1.PodStatus {
	status := &v1alpha1.PodStatus{PodName: p.Name, LastRun: &p.CreationTimestamp}
	if last != nil {
		status.LastSuccessfulJobID = last.LastSuccessfulJobID
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		switch c.Name {
		case layout.MainContainer:
			status.ContainerStatus = containerStatus(c, hidden)
		case layout.InitContainer:
			status.InitContainerStatus = containerStatus(c, hidden)
		case layout.WaitContainer:
			status.WaitContainerStatus = containerStatus(c, hidden)
		}
	}
	return status
}

func containerStatus(c corev1.ContainerStatus, hidden *redact.Redactor) v1alpha1.ContainerStatus {
	status := v1alpha1.ContainerStatus{State: c.State.DeepCopy(), Image: c.Image, ImageID: c.ImageID}
	switch {
	case status.State.Waiting != nil:
		w := status.State.Waiting
		w.Message = hidden.Hide(w.Message)
		status.Reason, status.Message = w.Reason, w.Message
	case status.State.Running != nil:
		status.Reason = "Running"
	case status.State.Terminated != nil:
		t := status.State.Terminated
		t.Message = lastLines(hidden.HideCut(t.Message))
		status.Reason, status.Message, status.ExitCode = t.Reason, t.Message, &t.ExitCode
	}
	return status
}

// lastLines returns the end of a text.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	text = strings.Join(lines[max(0, len(lines)-maxLines):], "\n")
	if len(text) > maxBytes {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxBytes:], "")
	}
	return text
}

// Failure returns a failure as shown to users; nil for none. A successful run fails over unreadable exports.
func Failure(failure *pod.Failure, result *pod.Result, hidden *redact.Redactor) *pod.Failure {
	if failure == nil {
		if _, err := Exports(result.Exports); err != nil {
			return &pod.Failure{
				Reason: ReasonExports, Message: err.Error(),
				Codes: []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem},
			}
		}
		return nil
	}
	message := hidden.Hide(failure.Message)
	if words := lastLines(hidden.HideCut(failure.LastWords)); words != "" {
		message += "; it has said last:\n" + words
	}
	return &pod.Failure{Reason: failure.Reason, Message: message, Codes: failure.Codes}
}

// errExports does not quote the file: it may be secret. The added errors about YAML do not quote it either.
var errExports = fmt.Errorf("the file named by %s holds no object: expected one as JSON or YAML, "+
	"with the names of exports as fields", layout.ExportsVariable)

// Exports reads the file with the exports, JSON or YAML; nil for none.
func Exports(file []byte) (map[string]any, error) {
	if len(strings.TrimSpace(string(file))) == 0 {
		return nil, nil //nolint:nilnil // none is no error
	}
	content, err := boundedyaml.ToJSON(file)
	if err != nil {
		return nil, fmt.Errorf("%w; %w", errExports, err)
	}
	var exports map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts(content, &exports) != nil {
		return nil, errExports
	}
	return exports, nil
}
