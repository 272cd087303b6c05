package controller

import (
	"context"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// observer hears what a plugin says about a job while it works on it.
type observer struct {
	job *job
}

var _ plugin.Observer = (*observer)(nil)

// Progress is remembered for the message of a timeout.
func (o *observer) Progress(step, message string) {
	o.job.waitingFor = message
	o.job.log.Debug("plugin reports progress", "step", step, "message", message)
}

// SaveProviderStatus writes the provider status, and in the same write that the job is under way.
func (o *observer) SaveProviderStatus(ctx context.Context, document []byte) error {
	if err := checkProviderStatus(document); err != nil {
		return err
	}
	return o.job.writer.status(ctx, o.job.item, func(item *v1alpha1.DeployItem) {
		contract.Progress(item)
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: document}
	})
}

// checkProviderStatus tells what is wrong with a provider status. The API server takes it only as an object with a type.
func checkProviderStatus(document []byte) error {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(document, &meta); err != nil || meta.APIVersion == "" || meta.Kind == "" {
		return errors.New("provider status: expected a JSON object with apiVersion and kind")
	}
	return nil
}

// Event becomes an event of the deploy item.
func (o *observer) Event(warning bool, reason, message string) {
	eventType := corev1.EventTypeNormal
	if warning {
		eventType = corev1.EventTypeWarning
	}
	o.job.event(eventType, reason, message)
}
