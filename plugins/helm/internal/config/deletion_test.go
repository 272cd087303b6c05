package config_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
)

// Rule (helm.md#deletion): Most errors of a configuration do not block its deletion.
func TestReadDeletion(t *testing.T) {
	t.Parallel()
	groups := []any{object{"predefinedResourceGroup": object{"type": "empty"}}}
	named := helm.Release{Namespace: "shop-ns", Name: "shop"}
	for name, tc := range map[string]struct {
		reason string
		config object
		want   config.Deletion
		groups bool
	}{
		"none": {reason: "a deletion needs no configuration", want: config.Deletion{HelmDeployment: true}},
		"release": {
			reason: "the release and how it is to be uninstalled",
			config: shop(object{"helmDeploymentConfig": object{"uninstall": object{"disableHooks": true, "wait": true, "timeout": "90s"}}}),
			want:   config.Deletion{HelmDeployment: true, Release: named, Uninstall: helm.Options{DisableHooks: true, Wait: true, Timeout: 90 * time.Second}},
		},
		"objects": {
			reason: "the steps for objects", config: shop(object{"helmDeployment": false, "deletionGroups": groups}), groups: true,
			want: config.Deletion{Release: named},
		},
		"mistakes elsewhere": {
			reason: "a mistake that does not concern the deletion does not stop it",
			config: shop(object{
				"apiVersion": "v2", "chart": "none", "values": "none", "exports": "none", "readinessChecks": 5, "deletionGroupsDuringUpdate": []any{object{}},
				"surprise": true, "helmDeploymentConfig": object{"install": object{"atomik": true}, "upgrade": "later", "rollback": object{}},
			}),
			want: config.Deletion{HelmDeployment: true, Release: named},
		},
		"no such release": {
			reason: "a name that no release can have is none", config: shop(object{"name": "Shop"}), want: config.Deletion{HelmDeployment: true},
		},
		"null everywhere": {reason: "null is what was left out", config: with(with(shop(nil), "helmDeployment", nil), "helmDeploymentConfig", object{"uninstall": nil}), want: config.Deletion{HelmDeployment: true, Release: named}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := requestOf(nil)
			if tc.config != nil {
				req = request(t, tc.config)
			}
			got, err := config.ReadDeletion(req, true)
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			opaque := cmp.Comparer(func(prune.Groups, prune.Groups) bool { return true })
			if diff := cmp.Diff(&tc.want, got, opaque); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if hasGroups := !reflect.DeepEqual(prune.Groups{}, got.Groups); hasGroups != tc.groups {
				t.Errorf("%s: expected groups %t, but found %t", tc.reason, tc.groups, hasGroups)
			}
		})
	}
}

// Rule (helm.md#deletion): An error in `helmDeployment`, `uninstall` or `deletionGroups` blocks the deletion.
func TestReadDeletionRefuses(t *testing.T) {
	t.Parallel()
	unknown := []any{object{"predefinedResourceGroup": object{"type": "empty", "force": true}}}
	for name, tc := range map[string]struct {
		reason  string
		changes object
		lenient bool
		want    []string
	}{
		"mode": {
			reason: "it decides on what is deleted", changes: object{"helmDeployment": "no"}, want: []string{"helmDeployment: expected true or false, but found a text"},
		},
		"options": {
			reason: "the end would come in another way than was wanted", lenient: true,
			changes: object{"helmDeploymentConfig": object{"uninstall": object{"wiat": true, "timeout": "soon"}}},
			want:    []string{"helmDeploymentConfig.uninstall.wiat: Forbidden", "helmDeploymentConfig.uninstall.timeout: Invalid"},
		},
		"groups":         {reason: "they may say that objects stay", changes: object{"deletionGroups": []any{object{}}}, want: []string{"deletionGroups[0]: Required"}},
		"unknown fields": {reason: "a group may take more than it was meant to", changes: object{"deletionGroups": unknown}, want: []string{"predefinedResourceGroup.force"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.ReadDeletion(request(t, shop(tc.changes)), !tc.lenient)
			mustBeConfigurationProblem(t, err, append(tc.want, "spec.config")...)
			if t.Failed() {
				t.Log(tc.reason)
			}
		})
	}
	if _, err := config.ReadDeletion(request(t, shop(object{"deletionGroups": unknown})), false); err != nil {
		t.Errorf("who passes over unknown fields does so here, too, but found: %v", err)
	}
}
