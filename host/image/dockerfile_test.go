package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// licensed is where the Dockerfile writes the licenses of modules.
const licensed = "/licensed"

// stage is a part of the Dockerfile that makes an image.
type stage struct {
	files                    map[string]string // with their modes, but for those of base and the licenses of modules
	programs                 map[string]string // where they are among those that were built
	licenses                 string            // the image whose licenses it has
	user, workingDir         string
	env, entrypoint, command []string
}

// stages reads the Dockerfile, which uses a part of the language only. It returns the stages that make images and the commands of the others.
func stages(t *testing.T) (images map[string]*stage, commands []string) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	images = map[string]*stage{}
	var current *stage
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		fields := strings.Fields(rest)
		switch {
		case instruction == "" || instruction == "#":
		case instruction == "FROM" && fields[0] == "scratch":
			current = &stage{files: map[string]string{}, programs: map[string]string{}}
			images[fields[2]] = current
		case instruction == "FROM":
			current = nil
		case current == nil && instruction == "RUN":
			commands = append(commands, rest)
		case current != nil:
			current.read(t, instruction, rest)
		}
	}
	return images, commands
}

func (s *stage) read(t *testing.T, instruction, rest string) {
	t.Helper()
	fields := strings.Fields(rest)
	switch instruction {
	case "COPY":
		if rest == "--from=build /base/ /" {
			return
		}
		if of, found := strings.CutPrefix(rest, "--from=build "+licensed+"/"); found {
			s.licenses = strings.TrimSuffix(of, "/ /")
			return
		}
		mode, chosen := strings.CutPrefix(fields[1], "--chmod=")
		if len(fields) != 4 || fields[0] != "--from=build" || !chosen {
			t.Fatalf("expected a file with its mode to be copied from the build, but found COPY %s", rest)
		}
		s.files[fields[3]] = mode
		if source, built := strings.CutPrefix(fields[2], "/programs/"); built {
			s.programs[fields[3]] = source
		}
	case "USER":
		s.user = rest
	case "WORKDIR":
		s.workingDir = rest
	case "ENV":
		s.env = append(s.env, rest)
	case "ENTRYPOINT", "CMD":
		into := &s.entrypoint
		if instruction == "CMD" {
			into = &s.command
		}
		if err := json.Unmarshal([]byte(rest), into); err != nil {
			t.Fatalf("%s: %v", instruction, err)
		}
	default:
		t.Fatalf("expected an instruction that this test knows, but found %s", instruction)
	}
}

// TestDockerfile: who builds with it gets what the assembler makes.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	license, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	images, commands := stages(t)
	base := baseOf(t, commands)
	for _, d := range definitions(license, debug.Module{}) {
		found := images[d.name]
		if found == nil {
			t.Errorf("the Dockerfile has no stage %s", d.name)
			continue
		}
		want := &stage{
			files: map[string]string{}, programs: map[string]string{}, licenses: d.name,
			user: user, workingDir: "/", env: d.env, entrypoint: d.entrypoint, command: d.command,
		}
		wantBase := map[string]string{}
		for _, f := range d.base {
			entry := fmt.Sprintf("%04o %.20q", f.mode, f.content)
			switch _, inBase := base[f.path]; {
			case inBase:
				wantBase[f.path] = entry
			case !strings.HasSuffix(f.path, "/"): // a directory is made with what is copied into it
				want.files[f.path] = fmt.Sprintf("%04o", f.mode)
			}
			if f.path == "/etc/ssl/certs/ca-certificates.crt" { // Debian's, of which it says this
				want.files["/licenses/ca-certificates/copyright"] = fmt.Sprintf("%04o", fileMode)
			}
		}
		for _, p := range d.programs {
			want.files[p.path], want.programs[p.path] = fmt.Sprintf("%04o", programMode), p.source
			if !strings.Contains(strings.Join(commands, " ")+" ", "/"+p.source+" ") {
				t.Errorf("the Dockerfile does not build %s", p.source)
			}
		}
		if diff := cmp.Diff(want, found, cmp.AllowUnexported(stage{})); diff != "" {
			t.Errorf("%s (-assembled +Dockerfile):\n%s", d.name, diff)
		}
		if diff := cmp.Diff(wantBase, base); diff != "" {
			t.Errorf("%s: base (-assembled +Dockerfile):\n%s", d.name, diff)
		}
	}
}

// The licenses are those of the programs that were built before.
func TestDockerfileWritesLicenses(t *testing.T) {
	t.Parallel()
	_, commands := stages(t)
	before, args, found := strings.Cut(strings.Join(commands, " && "), "go run ./host/image ")
	if !found {
		t.Fatal("expected the Dockerfile to run this program, but found nothing")
	}
	args, _, _ = strings.Cut(args, "&&")
	o, err := parse(strings.Fields(strings.NewReplacer("$TARGETOS", "linux", "$TARGETARCH", "arm64", "$VERSION", "v1.2.3").Replace(args)))
	if err != nil || o.licenses != licensed || !slices.Equal(o.platforms, []platform{{"linux", "arm64"}}) {
		t.Errorf("expected the licenses for linux/arm64 in %s, but found %+v (%v)", licensed, o, err)
	}
	if !strings.Contains(before, "built="+o.programs+"/$TARGETOS/$TARGETARCH ") {
		t.Errorf("expected programs to be built in %s, but found %s", o.programs, before)
	}
}

// baseOf runs the command of the Dockerfile that makes /base, elsewhere, and returns what it has made: modes and beginnings.
func baseOf(t *testing.T, commands []string) map[string]string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "base")
	script := strings.ReplaceAll(commands[len(commands)-1], "/base/", root+"/")
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "umask 022; "+script)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
	base := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode, name, content := int64(info.Mode().Perm()), strings.TrimPrefix(path, root), []byte(nil)
		if info.Mode()&fs.ModeSticky != 0 {
			mode |= 0o1000
		}
		if info.IsDir() {
			name += "/"
		} else if content, err = os.ReadFile(path); err != nil {
			return err
		}
		base[name] = fmt.Sprintf("%04o %.20q", mode, content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return base
}
