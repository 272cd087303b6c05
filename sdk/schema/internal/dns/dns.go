// Package dns has a configuration for the test of package schema.
package dns

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/pluginconfig"
)

// Class says where a zone is served.
type Class string

// Zone is a zone
// of names.
type Zone struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Domain of the zone.
	Domain string `json:"domain"`
	Class  Class  `json:"class,omitempty"`
	// TTL of its records.
	TTL     *metav1.Duration      `json:"ttl,omitempty"`
	Since   *time.Time            `json:"since,omitempty"`
	Size    pluginconfig.Amount   `json:"size,omitempty"`
	Raw     *runtime.RawExtension `json:"raw,omitempty"`
	Records []Record              `json:"records,omitempty"`
}

// Record of a zone.
type Record struct {
	// Name below the domain.
	Name string `json:"name"`
}
