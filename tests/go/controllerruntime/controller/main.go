// Controller does with controller-runtime what benchmarks.end_to_end measures of distq: the controllers of
// Items, or of Sets.
//
// It prints "ready", begins at once, and works until it is ended.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	kubeconfig = flag.String("access", "", "the kubeconfig")
	namespace  = flag.String("namespace", "", "one namespace")
	load       = flag.String("load", "items", "items or sets")
	workers    = flag.Int("workers", 8, "reconciles at a time")
)

const setLabel = "set"

func main() {
	flag.Parse()
	fmt.Println("ready")
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr), zap.Level(zapErrorLevel)))
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	exitOn(err)
	config.QPS = -1
	scheme := runtime.NewScheme()
	exitOn(clientgoscheme.AddToScheme(scheme))
	addKnownTypes(scheme)
	running, err := manager.New(config, manager.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{*namespace: {}}},
	})
	exitOn(err)
	options := controller.Options{MaxConcurrentReconciles: *workers}
	ctx := signals.SetupSignalHandler()
	if *load == "items" {
		exitOn(builder.ControllerManagedBy(running).
			For(&Item{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			WithOptions(options).
			Complete(&items{running.GetClient()}))
	} else {
		exitOn(running.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, setLabel, func(pod client.Object) []string {
			return []string{pod.GetLabels()[setLabel]}
		}))
		exitOn(builder.ControllerManagedBy(running).
			For(&Set{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(setOf)).
			WithOptions(options).
			Complete(&sets{running.GetClient(), scheme}))
	}
	exitOn(running.Start(ctx))
}

// items sets the status of each Item to the generation that it has seen.
type items struct{ client.Client }

func (r *items) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	item := &Item{}
	if err := r.Get(ctx, request.NamespacedName, item); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if item.Status.ObservedGeneration == item.Generation {
		return reconcile.Result{}, nil
	}
	before := item.DeepCopyObject().(*Item)
	item.Status.ObservedGeneration = item.Generation
	return reconcile.Result{}, r.Status().Patch(ctx, item, client.MergeFrom(before))
}

// sets lets each Set have its Pods: adopts those with its label, creates the others, and counts them.
type sets struct {
	client.Client
	scheme *runtime.Scheme
}

func (r *sets) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	set := &Set{}
	if err := r.Get(ctx, request.NamespacedName, set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	pods := &corev1.PodList{}
	named := client.MatchingFields{setLabel: set.Name}
	if err := r.List(ctx, pods, client.InNamespace(set.Namespace), named); err != nil {
		return reconcile.Result{}, err
	}
	there := map[string]bool{}
	var owned int64
	for i := range pods.Items {
		pod := &pods.Items[i]
		there[pod.Name] = true
		if len(pod.OwnerReferences) > 0 {
			owned++
		} else if err := r.adopt(ctx, set, pod); err != nil {
			return reconcile.Result{}, err
		}
	}
	for number := int64(0); number < set.Spec.Replicas; number++ {
		name := fmt.Sprintf("%s-%d", set.Name, number)
		if there[name] {
			continue
		}
		if err := r.Create(ctx, newPod(set, name)); err != nil && !apierrors.IsAlreadyExists(err) {
			return reconcile.Result{}, err
		}
	}
	if set.Status.Replicas == owned {
		return reconcile.Result{}, nil
	}
	before := set.DeepCopyObject().(*Set)
	set.Status.Replicas = owned
	return reconcile.Result{}, r.Status().Patch(ctx, set, client.MergeFrom(before))
}

func (r *sets) adopt(ctx context.Context, set *Set, pod *corev1.Pod) error {
	before := pod.DeepCopy()
	pod.OwnerReferences = ownerReferences(set)
	return r.Patch(ctx, pod, client.MergeFrom(before))
}

func setOf(_ context.Context, pod client.Object) []reconcile.Request {
	name := types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetLabels()[setLabel]}
	return []reconcile.Request{{NamespacedName: name}}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
