package charts

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// block is a code block of a page.
var block = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// The commands of the guide work one after the other, on an API server on which nobody runs Pods. What it says of
// plugins is tested in test/e2e/node.
func TestOperatorsGuide(t *testing.T) {
	g := newGuide(t)
	ofChart, _, _ := strings.Cut(read(t, filepath.Join(testenv.Root(), "docs", "operators-guide.md")), "\n## Plugins\n")
	for _, found := range block.FindAllStringSubmatch(ofChart, -1) {
		if found[1] == "yaml" {
			name, isFile := strings.CutPrefix(strings.SplitN(found[2], "\n", 2)[0], "# ")
			if !isFile {
				t.Errorf("expected the name of a file in the first line of\n%s", found[2])
			}
			g.write(name, found[2])
			continue
		}
		for command := range strings.Lines(found[2]) {
			g.run(strings.Fields(command))
			if strings.HasPrefix(command, "helm uninstall") {
				g.mustHaveNothingBut(5)
			}
		}
	}
	if g.commands < 10 {
		t.Errorf("expected more commands than %d", g.commands)
	}
	readme := read(t, filepath.Join(testenv.Root(), "charts/pergola/README.md"))
	if first := strings.Join(g.first, " "); !strings.Contains(readme, first+"\n") {
		t.Errorf("expected the README of the chart to begin with %q, too", first)
	}
	g.mustHaveNothingBut(0)
	g.run(g.first) // and what has stayed is no obstacle
}

// mustHaveNothingBut checks that there are no Deployments of the release, and how many definitions have stayed.
func (g *guide) mustHaveNothingBut(definitions int) {
	g.Helper()
	left := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := g.admin.List(g.Context(), left); err != nil || len(left.Items) != definitions {
		g.Errorf("expected %d definitions, but found %d, %v", definitions, len(left.Items), err)
	}
	deployments := &appsv1.DeploymentList{}
	if err := g.admin.List(g.Context(), deployments, client.InNamespace(releaseNamespace)); err != nil ||
		len(deployments.Items) != 0 {
		g.Errorf("expected the Deployments to go, but found %d, %v", len(deployments.Items), err)
	}
}

// The first commands of the tutorial install a host that needs no Landscaper, with the image that they build, as the
// ServiceAccount that the page lets request tokens.
func TestGettingStarted(t *testing.T) {
	g := newGuide(t)
	page := read(t, filepath.Join(testenv.Root(), "docs", "getting-started.md"))
	_, part, _ := strings.Cut(page, "## Install Pergola\n")
	part, _, _ = strings.Cut(part, "\n## ")
	for _, found := range block.FindAllStringSubmatch(part, -1) {
		for command := range strings.Lines(found[2]) {
			switch arguments := strings.Fields(command); arguments[0] {
			case "make":
				g.pack(arguments[len(arguments)-1])
			case "helm", "kubectl":
				g.run(arguments)
			case "kind", "export": // need a cluster with nodes, and change nothing here
			default:
				t.Errorf("unexpected command %v", arguments)
			}
		}
	}
	host := &appsv1.Deployment{}
	if err := g.admin.Get(t.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: "pergola"}, host); err != nil {
		t.Fatal(err)
	}
	pod := host.Spec.Template.Spec
	if found := pod.Containers[0]; found.Image != "localhost/pergola:v0.1.0" ||
		!slices.Contains(found.Args, "--standalone") {
		t.Errorf("expected the image of the page, standalone, but found %s with %v", found.Image, found.Args)
	}
	account := "--serviceaccount=" + releaseNamespace + ":" + pod.ServiceAccountName + "\n"
	if !strings.Contains(page, account) {
		t.Errorf("expected the page to grant the host the tokens with %s", account)
	}
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := g.admin.List(t.Context(), definitions); err != nil || len(definitions.Items) != 5 {
		t.Errorf("expected the definitions, but found %d, %v", len(definitions.Items), err)
	}
}

// What the README of the project says of a cluster installs the images that it has pushed. That they can be pushed
// package image shows.
func TestProjectReadme(t *testing.T) {
	g := newGuide(t)
	_, part, _ := strings.Cut(read(t, filepath.Join(testenv.Root(), "README.md")), "In a cluster, by the chart")
	commands := strings.Lines(strings.ReplaceAll(block.FindStringSubmatch(part)[2], "\\\n", ""))
	for command := range commands {
		arguments := strings.Fields(command)
		if !slices.Equal(arguments[:3], []string{"make", "image", "chart"}) {
			g.run(arguments)
			continue
		}
		g.pack(arguments[3:]...)
	}
	host := &appsv1.Deployment{}
	if err := g.admin.Get(t.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: "pergola"}, host); err != nil {
		t.Fatal(err)
	}
	if found := host.Spec.Template.Spec.Containers[0].Image; found != "registry.example.org/team/pergola:v0.1.0" {
		t.Errorf("expected the image that was pushed, but found %s", found)
	}
	configuration := &corev1.Secret{}
	key := client.ObjectKey{Namespace: releaseNamespace, Name: "pergola-configuration"}
	if err := g.admin.Get(t.Context(), key, configuration); err != nil {
		t.Fatal(err)
	}
	const helper = "registry.example.org/team/container-helper:v0.1.0"
	if found := string(configuration.Data["host.yaml"]); !strings.Contains(found, helper) {
		t.Errorf("expected the image of the helper that was pushed, but found\n%s", found)
	}
}

// The values that the chart's README shows are some.
func TestReadme(t *testing.T) {
	readme := read(t, filepath.Join(testenv.Root(), "charts", "pergola", "README.md"))
	for _, found := range block.FindAllStringSubmatch(readme, -1) {
		if found[1] == "yaml" {
			mustRender(t, found[2], newest)
		}
	}
}

// guide is somebody who does what a page says.
type guide struct {
	*testing.T

	dir, helm, kubeconfig string
	assets                string // directory with kubectl
	admin                 client.Client
	first                 []string // command of Helm
	commands              int
}

// newGuide starts an API server on which there is nothing, and goes to a directory with the chart.
func newGuide(t *testing.T) *guide {
	t.Helper()
	g := &guide{T: t, dir: t.TempDir(), helm: filepath.Join(testenv.Root(), "bin", "tools", "helm")}
	if _, err := os.Stat(g.helm); err != nil {
		t.Fatalf("run `make bin/tools/helm`: %v", err)
	}
	assets, err := testenv.Assets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g.assets = assets
	server := &envtest.Environment{BinaryAssetsDirectory: assets}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if g.admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	g.kubeconfig = g.write("kubeconfig", string(server.KubeConfig))
	for _, name := range []string{"bin", "charts"} {
		if err := os.Symlink(filepath.Join(testenv.Root(), name), filepath.Join(g.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// pack makes the chart for images, as variables of make say.
func (g *guide) pack(variables ...string) {
	g.Helper()
	pack := exec.CommandContext(g.Context(), "make", append([]string{"-C", testenv.Root(), "chart"}, variables...)...)
	if out, err := pack.CombinedOutput(); err != nil {
		g.Fatalf("make chart %v: %v\n%s", variables, err, out)
	}
}

func (g *guide) write(name, content string) (path string) {
	g.Helper()
	path = filepath.Join(g.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		g.Fatal(err)
	}
	return path
}

// succeed has a Job succeed as soon as it is there, in the place of a node. The function that it returns waits for
// that.
func (g *guide) succeed(ctx context.Context, name string) (wait func()) {
	var done sync.WaitGroup
	done.Go(func() {
		job := &batchv1.Job{}
		await.That(g.T, patience, "the Job "+name, func() bool {
			return g.admin.Get(ctx, client.ObjectKey{Namespace: releaseNamespace, Name: name}, job) == nil
		})
		now := metav1.Now()
		job.Status = batchv1.JobStatus{Succeeded: 1, StartTime: &now, CompletionTime: &now,
			Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue},
				{Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
			}}
		if err := g.admin.Status().Update(ctx, job); err != nil {
			g.Error(err)
		}
	})
	return done.Wait
}

// Each of the settings of the other tests can be installed, upgraded and uninstalled by Helm.
func TestSettingsCanBeInstalled(t *testing.T) {
	g := newGuide(t)
	if err := g.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
		t.Fatal(err)
	}
	for name, values := range settings {
		t.Run(name, func(t *testing.T) {
			in := *g
			in.T = t
			file := in.write("values.yaml", values)
			for _, how := range []string{"install --create-namespace", "upgrade"} {
				in.run(strings.Fields("helm " + how + " pergola charts/pergola --namespace pergola-system --values " + file))
			}
			in.run(strings.Fields("helm uninstall pergola --namespace pergola-system --no-hooks"))
		})
	}
}

// execute runs a command with the kubeconfig of the guide, and the programs under test in the PATH.
func (g *guide) execute(command *exec.Cmd) {
	g.Helper()
	path := strings.Join([]string{binaries, g.assets, os.Getenv("PATH")}, string(os.PathListSeparator))
	command.Dir, command.Env = g.dir, append(os.Environ(), "KUBECONFIG="+g.kubeconfig, "HOME="+g.dir, "PATH="+path)
	if out, err := command.CombinedOutput(); err != nil {
		g.Fatalf("%v: %v\n%s", command, err, out)
	}
}

// forPods are the flags of Helm that wait for Pods.
var forPods = []string{"--wait", "--atomic"}

// run runs a command, without a wait for Pods, which are not there. One of kubectl asks Pods, but the Deployment that
// it names must be there.
func (g *guide) run(command []string) {
	g.Helper()
	g.commands++
	ctx, cancel := context.WithTimeout(g.Context(), patience)
	defer cancel()
	switch command[0] {
	case "make":
		g.pack(slices.DeleteFunc(command[1:], func(word string) bool { return !strings.Contains(word, "=") })...)
	case "helm":
		if g.first == nil {
			g.first = slices.Clone(command)
		}
		if command[1] == "uninstall" && !slices.Contains(command, "--no-hooks") {
			defer g.succeed(ctx, "pergola-cleanup")()
		}
		arguments := slices.Clone(command[1:])
		g.execute(exec.CommandContext(ctx, g.helm, slices.DeleteFunc(arguments, func(argument string) bool {
			return slices.Contains(forPods, argument)
		})...))
	case "pergola": // perhaps with a pipe
		g.execute(exec.CommandContext(ctx, "/bin/sh", "-c", strings.Join(command, " ")))
	case "kubectl":
		if command[1] == "delete" { // nothing carries out the deletion of namespaces
			return
		}
		var key client.ObjectKey
		for i, argument := range command {
			if argument == "-n" {
				key.Namespace = command[i+1]
			}
			if name, found := strings.CutPrefix(argument, "deployment/"); found {
				key.Name = name
			}
		}
		if err := g.admin.Get(g.Context(), key, &appsv1.Deployment{}); err != nil {
			g.Errorf("%v: %v", command, err)
		}
	default:
		g.Errorf("expected make, helm, pergola or kubectl, but found %v", command)
	}
}
