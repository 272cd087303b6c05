package lscontext

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// withOCMConfig returns the Context shop/default with an ocmConfig.
func withOCMConfig(name string) *v1alpha1.Context {
	lsContext := newContext()
	lsContext.OCMConfig = &v1alpha1.LocalObjectReference{Name: name}
	return lsContext
}

// Rule (host-configuration.md#the-configmap-of-a-context): A broken ConfigMap in `ocmConfig` fails no call: the plugin
// is told.
func TestOCMConfig(t *testing.T) {
	t.Parallel()
	const found = `: ConfigMap "shop/places": `
	largest := strings.Repeat("a", maxOCMConfig)
	type data = map[string]string
	for name, tc := range map[string]struct {
		configMap        string
		data             data
		content, problem string
		reads            int
	}{
		"There":            {"places", data{".ocmconfig": "a: b", "other": "c"}, "a: b", "", 1},
		"Empty":            {"places", data{".ocmconfig": ""}, "", "", 1},
		"AsLargeAsAllowed": {"places", data{".ocmconfig": largest}, largest, "", 1},
		"TooLarge": {"places", data{".ocmconfig": largest + "a"}, "", found +
			".ocmconfig has 262145 bytes, but at most 256 KiB are handed over; remove some of it", 2},
		"Missing": {"places", nil, "", `.name: there is no ConfigMap "shop/places"; ` +
			`create it with the key ".ocmconfig", or remove ocmConfig`, 1},
		"NoData": {"places", data{}, "", found + `data is empty; put the configuration into the key ".ocmconfig"`, 2},
		"OtherKeys": {"places", data{"ocmconfig": "a", "b": "c"}, "", found +
			`data has no key ".ocmconfig", but ["b" "ocmconfig"]; put the configuration into that key`, 2},
		"ImpossibleName": {"../Places", nil, "", `.name: no ConfigMap can have the name "../Places"; correct it`, 0},
		"NoName":         {"", nil, "", `.name: no ConfigMap can have the name ""; correct it`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := &sdk.OCMConfig{ConfigMap: tc.configMap, Content: []byte(tc.content)}
			if tc.problem != "" {
				want = &sdk.OCMConfig{ConfigMap: tc.configMap, Problem: `Context "shop/default": ocmConfig` + tc.problem}
			}
			reader := &objects{places: tc.data}
			got, err := OCMConfig(t.Context(), reader, withOCMConfig(tc.configMap))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if reader.asked != tc.reads {
				t.Errorf("expected %d reads, but found %d", tc.reads, reader.asked)
			}
		})
	}
	if got, err := OCMConfig(t.Context(), &objects{}, newContext()); got != nil || err != nil {
		t.Errorf("expected none of a Context without ocmConfig, but found %v, %v", got, err)
	}
}
