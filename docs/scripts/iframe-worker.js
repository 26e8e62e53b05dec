// Browsers give no workers to pages that are opened from disk. There the search runs in a hidden frame instead, which
// is told what a worker's scope has that a window has not.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...scripts) => scripts.reduce(
        (before, next) => before.then(() => load(inside.document, next)), Promise.resolve());
      this.ready = load(inside.document, script);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };

  const load = (page, script) => new Promise((resolve, reject) => {
    const element = page.createElement("script");
    element.onload = resolve;
    element.onerror = () => reject(new Error(`cannot load ${script}`));
    element.src = new URL(script, location.href);
    page.body.append(element);
  });
}
