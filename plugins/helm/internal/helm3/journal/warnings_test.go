package journal

import "testing"

// TestWarningOf has the lines that Helm writes about charts and values, and some of the others.
func TestWarningOf(t *testing.T) {
	t.Parallel()
	for _, text := range []string{ // which stay without the word before them
		"Condition path 'db.enabled' for chart db returned non-bool value",
		"PathValue returned error YAML path cannot be empty", "Tag 'fast' for chart cache returned non-bool value",
		`ImportValues missing table from chart db: "exports" is not a table`,
		"skipping globals because destination global is not a table.", "skipped value for shop.db: Not a table.",
		`Dependencies are handled in Chart.yaml since apiVersion "v2". We recommend migrating dependencies to Chart.yaml.`,
	} {
		for _, word := range []string{"Warning: ", "warning: "} {
			if got := warningOf(word + text + "\n"); got != text {
				t.Errorf("expected %q, but found %q", text, got)
			}
		}
	}
	const db = "cannot overwrite table with non table for shop.db"
	const ignored = "destination for shop.db is a table. Ignoring non-table value"
	for line, want := range map[string]string{
		`Conflict: cannot merge map onto non-map for "zone". Skipping.`: `Conflict: cannot merge map onto non-map for ` +
			`"zone". Skipping.`,
		"key zone is table. Skipping":                          "key zone is table. Skipping",
		"warning: " + db + " (map[password:s3cret\nuser:(x)])": db,
		"warning: " + ignored + " (s3cret)":                    ignored,
		`info: skipping unknown hook: "pre-instal"`: "an object is left out, since its annotation helm.sh/hook names " +
			`an unknown hook: "pre-instal"`,

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
