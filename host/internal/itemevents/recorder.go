// Package itemevents records Events of DeployItems.
package itemevents

import (
	"fmt"
	"hash/crc32"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// maxReason and maxNote are limits of the API server.
	maxReason = 128
	maxNote   = 1024
	// action is the beginning of all actions.
	action = "ReconcileDeployItem"
)

// Recorder records Events. Create it with New.
type Recorder struct {
	events events.EventRecorder
}

// New returns a Recorder.
func New(events events.EventRecorder) *Recorder { return &Recorder{events: events} }

// Record records an event of an item. Long texts are cut.
func (r *Recorder) Record(item *v1alpha1.DeployItem, eventType, reason, message string) {
	note := text.Cut(message, maxNote)
	// The recorder of client-go counts events with equal fields as repetitions of the first, whatever their texts, also
	// those of another call. A checksum of the text in the action keeps them apart.
	distinct := fmt.Sprintf("%s-%08x", action, crc32.ChecksumIEEE([]byte(note)))
	// Without a version, so that repetitions in later jobs count, too.
	regarding := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: item.Namespace, Name: item.Name, UID: item.UID},
	}
	r.events.Eventf(regarding, nil, eventType, text.Cut(reason, maxReason), distinct, "%s", note)
}
