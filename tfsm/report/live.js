// Keeps the page of `tfsm watch` up to date. All markup comes from the server, which escapes every text.
"use strict";
(() => {
  const main = document.querySelector("main");
  const connection = document.getElementById("connection");

  function tell(text, lost) {
    connection.textContent = text;
    connection.classList.toggle("lost", lost);
  }

  // Readers keep their place: tables stay scrolled, details open, and the focus where it was.
  function replace(element, html) {
    const focused = element.contains(document.activeElement) ? document.activeElement.id : "";
    const scrolled = [...element.querySelectorAll(".scroll")].map(box => [box.id, box.scrollLeft]);
    const open = [...element.querySelectorAll("details")].map(details => details.open);
    element.innerHTML = html;
    for (const [id, left] of scrolled) {
      const box = document.getElementById(id);
      if (box) box.scrollLeft = left;
    }
    element.querySelectorAll("details").forEach((details, i) => { details.open = Boolean(open[i]); });
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  function addStudy(study) {
    const section = document.createElement("section");
    section.className = "study";
    section.id = study.id;
    section.setAttribute("aria-labelledby", `${study.id}-title`);
    const heading = document.createElement("h2");
    heading.id = `${study.id}-title`;
    heading.textContent = study.domain;
    const status = document.createElement("div");
    status.id = `${study.id}-status`;
    const report = document.createElement("div");
    report.id = `${study.id}-report`;
    section.append(heading, status, report);
    main.append(section);
  }

  const source = new EventSource(`events${location.search}`);
  source.onopen = () => tell("Live.", false);
  source.onerror = () => tell("Connection lost; trying again.", true);
  source.addEventListener("status", event => {
    const { title, studies } = JSON.parse(event.data);
    document.title = title;
    for (const study of studies) {
      if (!document.getElementById(study.id)) addStudy(study);
      replace(document.getElementById(`${study.id}-status`), study.html);
    }
    for (const section of main.querySelectorAll(":scope > section")) {
      section.hidden = !studies.some(study => study.id === section.id);
    }
  });
  source.addEventListener("report", event => {
    const { id, html, final } = JSON.parse(event.data);
    replace(document.getElementById(`${id}-report`), html);
    if (final) document.getElementById("report-link").hidden = false;
  });
  source.addEventListener("problem", event => tell(JSON.parse(event.data).text, true));
  source.addEventListener("end", () => {
    source.close();
    tell("tfsm watch has ended; this page no longer updates.", true);
  });
})();
