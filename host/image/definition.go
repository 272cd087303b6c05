package main

import (
	"bytes"
	"encoding/pem"
	"path"
	"runtime/debug"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// definition says what an image is, on each platform.
type definition struct {
	name, title, description string
	base                     []file
	programs                 []placement
	data                     []debug.Module // what is in base and was not written here
	env, entrypoint, command []string
}

// placement is where a program comes from and goes to.
type placement struct {
	// source is its name among the programs that were built.
	source string
	// path in the image.
	path string
}

// user is who all images run as, by numbers because Kubernetes must see that it is not root. The names are those of /etc/passwd.
const user = "65532:65532"

const (
	users  = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n"
	groups = "root:x:0:\nnonroot:x:65532:\n"
)

// modes of what is in an image. A plugin that others than root may write would not be run.
const (
	dirMode     = 0o755
	tmpMode     = 0o1777
	fileMode    = 0o444
	programMode = 0o555
)

// plugins are in the order of their layers: what changes least comes first.
var plugins = []string{"mock", "container", "manifest", "helm"}

const pluginDir = "/plugins"

// definitions are those of all images. The certificates are those of the module roots.
func definitions(license []byte, roots debug.Module) []definition {
	const bin = "/usr/local/bin"
	host := definition{
		name:        "pergola",
		title:       "Pergola",
		description: "Host controller that runs deployers as plugins, with the deployers mock, container, manifest and helm",
		base: append(base(license),
			file{path: "/etc/ssl/", mode: dirMode},
			file{path: "/etc/ssl/certs/", mode: dirMode},
			file{path: "/etc/ssl/certs/ca-certificates.crt", mode: fileMode, content: certificates()},
			file{path: pluginDir + "/", mode: dirMode},
			file{path: "/usr/", mode: dirMode},
			file{path: "/usr/local/", mode: dirMode},
			file{path: bin + "/", mode: dirMode},
		),
		data:       []debug.Module{roots},
		programs:   []placement{{source: "pergola", path: path.Join(bin, "pergola")}},
		env:        []string{"PATH=" + bin},
		entrypoint: []string{"pergola"},
		command:    []string{"host"},
	}
	for _, plugin := range plugins {
		host.programs = append(host.programs, placement{source: path.Join("plugins", plugin), path: path.Join(pluginDir, plugin)})
	}
	helper := definition{
		name:        "container-helper",
		title:       "Pergola container helper",
		description: "What runs beside the image of a container deploy item: it prepares its directories and takes its exports and its state",
		base:        base(license),
		programs:    []placement{{source: "helper", path: "/helper"}},
		env:         []string{"PATH=/"},
		entrypoint:  []string{"/helper"},
	}
	return []definition{host, helper}
}

// base is what every image has.
func base(license []byte) []file {
	return []file{
		{path: "/etc/", mode: dirMode},
		{path: "/etc/group", mode: fileMode, content: []byte(groups)},
		{path: "/etc/passwd", mode: fileMode, content: []byte(users)},
		{path: licenseDir, mode: dirMode},
		{path: licenseDir + "LICENSE", mode: fileMode, content: license},
		{path: "/tmp/", mode: tmpMode},
	}
}

// certificates are those of the authorities that browsers trust. A file cannot say of one that it is trusted under conditions only, so those
// are left out.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}
