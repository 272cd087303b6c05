package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// pictures says that the pictures in the docs are to be taken anew.
var pictures = flag.Bool("pictures", false, "take the pictures in the docs anew")

const statusConfig = `apiVersion: host.pergola.dev/v1alpha1
kind: HostConfiguration
identity: pergola-prod
statusPage: {listenAddress: "127.0.0.1:0"}
`

var statusPageAddress = regexp.MustCompile(`"statusPageAddress":"([^"]+)"`)

// TestStatusPage: a replica shows what its items say: what waits for what, and why something has failed. The docs
// have a picture of that.
func TestStatusPage(t *testing.T) {
	shop, system := "shop", "pergola-system"
	for _, name := range []string{shop, system} {
		create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	create(t, &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: shop}})
	f := &fleet{t: t, namespace: system, options: testenv.HostOptions{
		Binary: binaries + "/pergola", PluginDir: pluginDir(t, "manifest", "mock"), Config: writeConfig(t, statusConfig),
	}}
	replica := f.start(1)[0]
	createTarget(t, shop, "production")
	newShopItem := func(name string, manifests ...object) *v1alpha1.DeployItem {
		return manifestItem(shop, name, "production", manifests...)
	}
	waiting := newShopItem("web", configMap(shop, "settings", "green"), unreadyDeployment(shop))
	create(t, waiting)
	setJob(t, waiting)
	carryOut(t, newShopItem("settings", configMap(shop, "others", "blue")), succeeded)
	failed := carryOut(t, newShopItem("roses", configMap(shop, "no name!", "red")), failed)
	waiting = waitFor(t, waiting, "waiting", func(i *v1alpha1.DeployItem) bool {
		return strings.Contains(waitsFor(i), "slow")
	})

	url := "http://" + statusPageAddress.FindStringSubmatch(replica.Log())[1]
	var status struct {
		Host       struct{ Pod, Identity string }
		Replicas   []struct{ Pod string }
		Locks      []struct{ Name string }
		InProgress []struct{ Name, WaitingFor string }
		Errors     []struct{ LastError struct{ Message string } }
	}
	eventually(t, "the page to have what happened", func(ctx context.Context) (string, error) {
		body, err := fetch(ctx, url+"/status.json")
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal([]byte(body), &status); err != nil {
			return "", err
		}
		if len(status.InProgress) != 1 || len(status.Errors) != 1 || len(status.Locks) != 1 {
			return body, nil
		}
		return "", nil
	})
	if status.Host.Pod != replica.Pod.Name || status.Host.Identity != "pergola-prod" || len(status.Replicas) != 1 ||
		status.InProgress[0].WaitingFor != waitsFor(waiting) ||
		status.Errors[0].LastError.Message != failed.Status.LastError.Message {
		t.Errorf("expected the replica to say which it is, and what the items say, but found %+v", status)
	}

	keepPicture(t, "status-page.png", pictureOf(t, url+"/?still", 1200, 1250))
}

// waitsFor is what an item says that it waits for.
func waitsFor(item *v1alpha1.DeployItem) string {
	for _, c := range item.Status.Conditions {
		if c.Type == "Reconciling" && c.Status == v1alpha1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// keepPicture checks that something is to be seen on a picture, and that the docs have one; or puts it there.
func keepPicture(t *testing.T, name string, picture []byte) {
	t.Helper()
	file := filepath.Join(testenv.Root(), "docs", "images", name)
	if problem := problemOf(picture); problem != "" {
		t.Fatalf("%s: %s", name, problem)
	}
	if *pictures {
		if err := os.WriteFile(file, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	there, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("the docs lack the picture; `make pictures` takes it: %v", err)
	}
	if problem := problemOf(there); problem != "" {
		t.Errorf("%s of the docs: %s; `make pictures` takes it anew", name, problem)
	}
}

// problemOf says why a picture is of no use; empty if it shows something, and nothing of that is cut off.
func problemOf(picture []byte) string {
	const (
		text  = 50 // the edges of letters alone have more colours than that
		below = 48 // pixels at the lower edge, which are more than there are between two things
	)
	colours, margin, err := measure(picture)
	if err != nil || colours < text || margin < below {
		return fmt.Sprintf("expected text and %d empty pixels below it, but found %d colours and %d pixels, %v; "+
			"make the window higher",
			below, colours, margin, err)
	}
	return ""
}

func fetch(ctx context.Context, url string) (_ string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("found %s: %s", response.Status, body)
	}
	return string(body), nil
}
