package config_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
)

func TestExportValues(t *testing.T) {
	t.Parallel()
	values := json.RawMessage(`{"image":{"tag":"1.2"},"replicas":3,"secret":"hunter2","none":null,"list":[{"a":1},{"a":2}]}`)
	for name, tc := range map[string]struct {
		reason string
		wanted []any
		before object
		want   object
		wrong  []string
	}{
		"values": {
			reason: "values of all types are exported as they are, under their keys",
			wanted: []any{
				object{"key": "tag", "jsonPath": ".Values.image.tag"}, object{"key": "image", "jsonPath": ".Values.image"},
				object{"key": "count.of.replicas", "jsonPath": "Values.replicas"}, object{"key": "all", "jsonPath": ".Values.list[*].a"},
			},
			want: object{
				"tag": "1.2", "image": object{"tag": "1.2"}, "count": object{"of": object{"replicas": int64(3)}}, "all": []any{int64(1), int64(2)},
			},
		},
		"beside others": {
			reason: "what was exported from objects stays, also in the same map",
			wanted: []any{object{"key": "shop.tag", "jsonPath": ".Values.image.tag"}},
			before: object{"shop": object{"port": int64(80)}, "a": "b"},
			want:   object{"shop": object{"port": int64(80), "tag": "1.2"}, "a": "b"},
		},
		"missing": {
			reason: "all that is missing is told at once, and no value with it",
			wanted: []any{
				object{"key": "a", "jsonPath": ".Values.image.tga"}, object{"key": "b", "jsonPath": ".image.tag"}, object{"key": "c", "jsonPath": ".Values.none"},
				object{"key": "d", "jsonPath": ".Values.secret"},
			},
			wrong: []string{
				`export "a": the values of the chart have nothing at .Values.image.tga; paths begin with .Values`, `export "b": `, `export "c": `,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wanted := mustRead(t, shop(object{"exports": tc.wanted})).ValueExports
			before, err := json.Marshal(tc.before)
			if err != nil {
				t.Fatal(err)
			}
			got, err := config.ExportValues(wanted, values, tc.before)
			if tc.wrong != nil {
				mustBeConfigurationProblem(t, err, append(tc.wrong, "spec.config")...)
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%s: found error %v and exports (-want +got):\n%s", tc.reason, err, diff)
			}
			if after, err := json.Marshal(tc.before); err != nil || string(after) != string(before) {
				t.Errorf("the exports that were given have changed from %s to %s", before, after)
			}
		})
	}
}

func TestExportValuesOfNoChart(t *testing.T) {
	t.Parallel()
	wanted := mustRead(t, shop(object{"exports": []any{object{"key": "a", "jsonPath": ".Values.a"}}})).ValueExports
	_, err := config.ExportValues(wanted, nil, nil)
	mustBeConfigurationProblem(t, err, `export "a"`)
	if _, err := config.ExportValues(wanted, json.RawMessage(`["hunter2"`), nil); err == nil {
		t.Error("expected an error for values that cannot be read")
	}
}
