package config_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/settings"
)

// TestQuantities: nobody who may write a deploy item keeps the deployer busy with an amount that the library takes seconds to minutes for.
func TestQuantities(t *testing.T) {
	t.Parallel()
	costly := object{"limits": object{"memory": json.RawMessage("1e-9999999")}}
	for name, fields := range map[string]object{
		"plain": {"resources": costly}, "hidden by another case": {"resources": costly, "RESOURCES": object{"limits": object{}}},
	} {
		raw := marshal(t, document(fields))
		s := settings.Default()
		began := time.Now()
		if _, err := config.Validate(raw, &s, false); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: expected a refusal at once, but it took %s", name, took)
		}
	}
}
