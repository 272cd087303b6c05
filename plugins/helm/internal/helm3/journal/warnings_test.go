package journal

import "testing"

// TestWarningOf has the lines that Helm writes about charts and values, and some of the others.
func TestWarningOf(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"Warning: Condition path 'db.enabled' for chart db returned non-bool value":                                                 "Condition path 'db.enabled' for chart db returned non-bool value",
		"Warning: PathValue returned error YAML path cannot be empty":                                                               "PathValue returned error YAML path cannot be empty",
		"Warning: Tag 'fast' for chart cache returned non-bool value\n":                                                             "Tag 'fast' for chart cache returned non-bool value",
		`Warning: ImportValues missing table from chart db: "exports" is not a table`:                                               `ImportValues missing table from chart db: "exports" is not a table`,
		"warning: skipping globals because destination global is not a table.":                                                      "skipping globals because destination global is not a table.",
		`Conflict: cannot merge map onto non-map for "zone". Skipping.`:                                                             `Conflict: cannot merge map onto non-map for "zone". Skipping.`,
		"key zone is table. Skipping":                                                                                               "key zone is table. Skipping",
		"warning: skipped value for shop.db: Not a table.":                                                                          "skipped value for shop.db: Not a table.",
		"warning: cannot overwrite table with non table for shop.db (map[password:s3cret\nuser:(x)])":                               "cannot overwrite table with non table for shop.db",
		"warning: destination for shop.db is a table. Ignoring non-table value (s3cret)":                                            "destination for shop.db is a table. Ignoring non-table value",
		`Warning: Dependencies are handled in Chart.yaml since apiVersion "v2". We recommend migrating dependencies to Chart.yaml.`: `Dependencies are handled in Chart.yaml since apiVersion "v2". We recommend migrating dependencies to Chart.yaml.`,
		`info: skipping unknown hook: "pre-instal"`:                                                                                 `an object is left out, since its annotation helm.sh/hook names an unknown hook: "pre-instal"`,

		"WARNING: unresolved URN reference ignored; using permissive schema: urn:x": "",
		"[INFO] Missing required value: s3cret":                                     "",
		"[ERROR] unable to get apiresource from unstructured: v1, Kind=X":           "",
		"error deleting the hook resource on hook failure: no answer":               "",
	} {
		if got := warningOf(line); got != want {
			t.Errorf("%q: expected %q, but found %q", line, want, got)
		}
	}
}
