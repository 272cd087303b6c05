package pluginimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// world is a registry with images of a plugin called thing.
type world struct {
	server *httptest.Server
	host   string
	cache  string
}

// newWorld returns a world whose registry is behind some others.
func newWorld(t *testing.T, behind ...func(http.Handler) http.Handler) *world {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	for _, wrap := range behind {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &world{
		server: server, host: strings.TrimPrefix(server.URL, "http://"), cache: filepath.Join(t.TempDir(), "cache"),
	}
}

// push pushes the program for each platform and returns the reference of the image, with its digest.
func (w *world) push(t *testing.T, programs map[string]string) string {
	t.Helper()
	all := map[string][]byte{}
	for platform, program := range programs {
		all[platform] = []byte(program)
	}
	image, err := Push(t.Context(), w.host+"/team/thing:v1", "/thing", all)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// take is what a host does that has this in its configuration.
func (w *world) take(image, sum string) (path, found string, err error) {
	return Reference{Image: image, Path: "/thing", SHA256: sum}.Take(context.Background(), w.cache, "thing")
}

func sumOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// each has a program for this platform and another one.
func each(program string) map[string]string {
	return map[string]string{host.String(): program, "plan9/mips": "program of others"}
}

// A host takes the program for its platform, and needs the registry no more.
func TestTake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	image := w.push(t, each("program"))
	if again := w.push(t, each("program")); again != image {
		t.Errorf("expected that the same programs make the same image, but found %s and %s", image, again)
	}
	tag, _, _ := strings.Cut(image, "@")
	for _, round := range []string{"from the registry", "from the cache"} {
		for _, reference := range []string{image, tag} {
			sum := map[bool]string{true: sumOf("program")}[reference == tag]
			path, found, err := w.take(reference, sum)
			if err != nil || found != sumOf("program") || filepath.Base(path) != "thing" {
				t.Fatalf("%s, %s: found %s, %s, %v", round, reference, path, found, err)
			}
			content, err := os.ReadFile(path)
			info, statErr := os.Stat(path)
			if err := errors.Join(err, statErr); err != nil || string(content) != "program" || info.Mode() != 0o555 {
				t.Errorf("%s, %s: expected the program, but found %q, %v, %v", round, reference, content, info.Mode(), err)
			}
		}
		w.server.Close()
	}
	if info, err := os.Stat(w.cache); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("expected a cache that is for nobody else, but found %v, %v", info.Mode(), err)
	}
	if _, _, err := w.take(image, sumOf("another")); err == nil || errors.Is(err, ErrUnfit) {
		t.Errorf("expected that another program is not taken from the cache, but asked for, but found %v", err)
	}
}

// What is not in a registry now may be there later; what an image does not have is refused for good.
func TestTakeFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	image := w.push(t, each("program"))
	foreign := w.push(t, map[string]string{"plan9/mips": "program"})
	repository, _, _ := strings.Cut(image, ":v1")
	for _, test := range []struct {
		reason string
		from   Reference
		unfit  bool
		want   string
	}{
		{"another program", Reference{image, "/thing", sumOf("x")}, true,
			"expected the sha256 " + sumOf("x") + ", but that of /thing in " + image + " is " + sumOf("program")},
		{"no such path", Reference{image, "/bin/thing", ""}, true, "expected the file /bin/thing in " + image},
		{"no such platform", Reference{foreign, "/thing", ""}, false, "no child with platform " + host.String()},
		{"no such tag", Reference{repository + ":v2", "/thing", sumOf("x")}, false, repository + ":v2: "},
		{"nothing fixed", Reference{repository + ":v1", "/thing", ""}, false, "expected a digest, or a sha256"},
	} {
		_, _, err := test.from.Take(t.Context(), w.cache, "thing")
		if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, ErrUnfit) != test.unfit {
			t.Errorf("%s: expected %q, but found %v", test.reason, test.want, err)
		}
	}
	if left, err := os.ReadDir(w.cache); err != nil || len(left) > 0 {
		t.Errorf("expected an empty cache, but found %v, %v", left, err)
	}
}

// A byte that was changed on the way is found, wherever it is in the layer.
func TestChangedOnTheWay(t *testing.T) {
	t.Parallel()
	part := "nothing yet"
	w := newWorld(t, func(registry http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
				registry.ServeHTTP(out, r)
				return
			}
			answer := httptest.NewRecorder()
			registry.ServeHTTP(answer, r)
			out.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
			_, _ = out.Write(append(answer.Body.Bytes(), ' ')) // after the end of what is read
		})
	})
	image := w.push(t, map[string]string{host.String(): "program"})
	for _, part = range []string{"/blobs/", "/manifests/"} {
		if path, _, err := w.take(image, ""); err == nil {
			t.Errorf("%s: expected an error, but found %s", part, path)
		}
	}
}

// An image may have many layers, and be in no list.
func TestOtherImages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	layers := func(platform v1.ConfigFile) string {
		image, err := assemble(fstest.MapFS{"thing": {Data: []byte("old"), Mode: 0o755}}, &platform)
		for _, files := range []fstest.MapFS{
			{"thing": {Data: []byte("new"), Mode: 0o755}},
			{"other": {Data: []byte("x")}, "link": {Data: []byte("thing"), Mode: os.ModeSymlink}},
		} {
			above, aboveErr := assemble(files, &platform)
			all, layersErr := above.Layers()
			if err = errors.Join(err, aboveErr, layersErr); err == nil {
				image, err = mutate.AppendLayers(image, all...)
			}
		}
		tag, nameErr := name.NewTag(w.host + "/team/built:v1")
		if err := errors.Join(err, nameErr, remote.Write(tag, image)); err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return tag.String() + "@" + digest.String()
	}
	here := layers(v1.ConfigFile{OS: runtime.GOOS, Architecture: runtime.GOARCH})
	for _, image := range []string{here, layers(v1.ConfigFile{})} {
		if _, sum, err := w.take(image, ""); err != nil || sum != sumOf("new") {
			t.Errorf("expected the program of the uppermost layer, but found %s, %v", sum, err)
		}
	}
	elsewhere := layers(v1.ConfigFile{OS: "plan9", Architecture: "mips"})
	want := "expected an image for " + host.String() + ", but it is for plan9/mips"
	if _, _, err := w.take(elsewhere, ""); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("expected %q, but found %v", want, err)
	}
	link := Reference{Image: here, Path: "/link"}
	if _, _, err := link.Take(t.Context(), w.cache, "thing"); !errors.Is(err, ErrUnfit) {
		t.Errorf("expected that a link is refused, but found %v", err)
	}
}

// The credentials are those that docker login has left, or that a Pod has at $DOCKER_CONFIG.
func TestCredentials(t *testing.T) {
	w := newWorld(t, func(registry http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
				out.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				out.WriteHeader(http.StatusUnauthorized)
				return
			}
			registry.ServeHTTP(out, r)
		})
	})
	docker := t.TempDir()
	t.Setenv("DOCKER_CONFIG", docker)
	t.Setenv("HOME", docker)
	config := fmt.Sprintf(`{"auths": {%q: {"username": "me", "password": "secret"}}}`, w.host)
	if err := os.WriteFile(filepath.Join(docker, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	image := w.push(t, each("program"))
	if _, _, err := w.take(image, ""); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(docker, "config.json")); err != nil {
		t.Fatal(err)
	}
	w.cache = t.TempDir()
	if _, _, err := w.take(image, ""); err == nil || errors.Is(err, ErrUnfit) {
		t.Errorf("expected to be turned away until there are credentials, but found %v", err)
	}
}

func TestPlatformOf(t *testing.T) {
	t.Parallel()
	header := func(fields any) []byte {
		var out bytes.Buffer
		if err := binary.Write(&out, binary.LittleEndian, fields); err != nil {
			t.Fatal(err)
		}
		return append(out.Bytes(), make([]byte, 64)...)
	}
	elfFor := func(machine elf.Machine) []byte {
		fields := elf.Header64{Machine: uint16(machine), Type: uint16(elf.ET_EXEC), Version: 1, Ehsize: 64}
		copy(fields.Ident[:], elf.ELFMAG+"\x02\x01\x01")
		return header(fields)
	}
	machoFor := func(cpu macho.Cpu) []byte {
		return header(macho.FileHeader{Magic: macho.Magic64, Cpu: cpu, Type: macho.TypeExec})
	}
	for want, programs := range map[string][][]byte{
		"linux/amd64": {elfFor(elf.EM_X86_64)}, "linux/arm64": {elfFor(elf.EM_AARCH64)},
		"darwin/amd64": {machoFor(macho.CpuAmd64)}, "darwin/arm64": {machoFor(macho.CpuArm64)},
		"": {elfFor(elf.EM_68K), []byte("#!/bin/sh\n"), nil},
	} {
		for _, program := range programs {
			if got := PlatformOf(program); got != want {
				t.Errorf("expected %q, but found %q", want, got)
			}
		}
	}
}
