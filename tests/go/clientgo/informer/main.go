// Informer follows a resource with client-go's shared informer, for tests and benchmarks beside distq's.
//
// It prints "ready", waits for a line on standard input, then begins; prints "synced N" when N objects are in
// its cache, each call of its handler if -calls is given, "store" and what is in its cache for each further
// line, and ends with its standard input.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "the file with the access")
	resource   = flag.String("resource", "v1/pods", "version/plural or group/version/plural")
	namespace  = flag.String("namespace", "", "one namespace, or all")
	typed      = flag.Bool("typed", false, "decode Pods into Go's types")
	calls      = flag.Bool("calls", false, "print the handler's calls")
	resync     = flag.Duration("resync", 0, "hand everything over again that often")
)

func main() {
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	exitOn(err)
	config.QPS = -1
	informer := newInformer(config)
	if *calls {
		_, err = informer.AddEventHandler(&printer{})
	} else {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	}
	exitOn(err)

	input := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	_, _ = input.ReadString('\n')
	stop := make(chan struct{})
	go informer.Run(stop)
	if !cache.WaitForCacheSync(stop, informer.HasSynced) {
		os.Exit(1)
	}
	say("synced %d", len(informer.GetStore().ListKeys()))
	for {
		if _, err := input.ReadString('\n'); err != nil {
			close(stop)
			return
		}
		names := []string{}
		for _, obj := range informer.GetStore().List() {
			names = append(names, name(obj))
		}
		sort.Strings(names)
		say("store %s", strings.Join(names, " "))
	}
}

func newInformer(config *rest.Config) cache.SharedIndexInformer {
	if *typed {
		clients, err := kubernetes.NewForConfig(config)
		exitOn(err)
		option := informers.WithNamespace(*namespace)
		return informers.NewSharedInformerFactoryWithOptions(clients, *resync, option).Core().V1().Pods().Informer()
	}
	clients, err := dynamic.NewForConfig(config)
	exitOn(err)
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return dynamicinformer.NewFilteredDynamicInformer(
		clients, resourceOf(*resource), *namespace, *resync, indexers, nil,
	).Informer()
}

func resourceOf(text string) schema.GroupVersionResource {
	parts := strings.Split(text, "/")
	if len(parts) == 2 {
		parts = append([]string{""}, parts...)
	}
	return schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
}

type printer struct{}

func (*printer) OnAdd(obj any, isInInitialList bool) {
	first := ""
	if isInInitialList {
		first = " first"
	}
	say("add %s%s", name(obj), first)
}

func (*printer) OnUpdate(before, after any) {
	_, version := of(after)
	say("update %s-%s", name(before), version)
}

func (*printer) OnDelete(obj any) {
	if unknown, missed := obj.(cache.DeletedFinalStateUnknown); missed {
		say("missed %s", name(unknown.Obj))
		return
	}
	say("delete %s", name(obj))
}

func name(obj any) string {
	key, version := of(obj)
	return key + "@" + version
}

func of(obj any) (key, version string) {
	accessor, err := meta.Accessor(obj)
	exitOn(err)
	return accessor.GetName(), accessor.GetResourceVersion()
}

var printing sync.Mutex

func say(format string, values ...any) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Printf(format+"\n", values...)
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		time.Sleep(10 * time.Millisecond)
		os.Exit(1)
	}
}
