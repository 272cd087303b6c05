// Command registry is a private registry on a node of tests, since a node's containers and image pulls reach nothing
// on the machine that the node is on. It serves one image, the one in a file, to the one client who has user and
// password.
//
//	registry -archive FILE -image private/step:1 -user USER -password PASSWORD
//
// It listens at a free port of 127.0.0.1, for which container runtimes use plain HTTP, and prints the reference of the
// image when it is there.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	archive := flag.String("archive", "", "the docker-archive with the image")
	image := flag.String("image", "", "name and tag of the image")
	user := flag.String("user", "", "who may pull")
	password := flag.String("password", "", "by which that is known")
	flag.Parse()
	content := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	push(content, *archive, *image)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != *user || p != *password {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		content.ServeHTTP(w, r)
	}))
	fmt.Fprintf(os.Stdout, "%s/%s\n", server.Listener.Addr(), *image)
	select {} // until the node is stopped
}

// push puts the image of an archive into a registry.
func push(content http.Handler, archive, name string) {
	image, err := tarball.ImageFromPath(archive, nil)
	check(err)
	blobs, err := image.Layers()
	check(err)
	config, err := partial.ConfigLayer(image)
	check(err)
	repository, tag, _ := strings.Cut(name, ":")
	for _, layer := range append(blobs, config) {
		digest, err := layer.Digest()
		check(err)
		blob, err := layer.Compressed()
		check(err)
		send(content, http.MethodPost, "/v2/"+repository+"/blobs/uploads/?digest="+digest.String(), "application/octet-stream", blob)
	}
	mediaType, err := image.MediaType()
	check(err)
	manifest, err := image.RawManifest()
	check(err)
	send(content, http.MethodPut, "/v2/"+repository+"/manifests/"+tag, string(mediaType), bytes.NewReader(manifest))
}

func send(content http.Handler, method, target, contentType string, body io.Reader) {
	request := httptest.NewRequest(method, target, body) //nolint:noctx // it never leaves the process
	request.Header.Set("Content-Type", contentType)
	answer := httptest.NewRecorder()
	if content.ServeHTTP(answer, request); answer.Code != http.StatusCreated {
		log.Fatalf("%s %s: %d %s", method, target, answer.Code, answer.Body)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
