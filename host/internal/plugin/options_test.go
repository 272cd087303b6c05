package plugin

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A file without a profile of its own has the default one.
func TestDefaultProfile(t *testing.T) {
	t.Parallel()
	own, common := Profile{Plugin: "echo", OpenFiles: 100}, Profile{OpenFiles: 200}
	h := openHost(t, pluginDir(t, "echo", "crash"), func(o *Options) {
		o.Profiles, o.DefaultProfile = map[string]Profile{"echo": own}, common
	})
	for file, want := range map[string]Profile{"echo": own, "crash": common} {
		if diff := cmp.Diff(want, h.plugin(file).profile); diff != "" {
			t.Errorf("profile of %s (-want +got):\n%s", file, diff)
		}
	}
}

// Files that are not to be used, also of images, are as if they were not there. Those that are to be used and are not
// there are missed.
func TestFiles(t *testing.T) {
	t.Parallel()
	h := openHost(t, pluginDir(t, "echo", "crash"), func(o *Options) {
		o.Files = []string{"echo", "later"}
		o.Profiles = map[string]Profile{"other": {Plugin: "other", Image: "registry/other:v1"}}
	}).run()
	h.waitFor("echo", Running)
	all := h.Status()
	if len(all) != 2 || all[0].File != "echo" || all[1].File != "later" || all[1].State != Missing {
		t.Errorf("expected echo, and that later is missing, but found %+v", all)
	}
	const wants = "one of those that are to be used: put it there, or take it out of pluginFiles"
	if err := h.Ready(); err == nil || !strings.HasPrefix(err.Error(),
		"plugin later: the file is not in the plugin directory ") || !strings.Contains(err.Error(), wants) {
		t.Errorf("expected that the host is not ready and says why, but found: %v", err)
	}
}
